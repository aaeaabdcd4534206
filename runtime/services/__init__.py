"""Table services: clean, archive, rollback, savepoint and restore, without Spark."""
