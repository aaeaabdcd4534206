"""The only part of the runtime that imports Spark."""
