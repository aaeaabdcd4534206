"""Table services: clean, archive, rollback, savepoint, restore; no Spark."""
