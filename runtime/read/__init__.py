"""Reads of a table: the files that they need, and the rows in Arrow batches without Spark."""
