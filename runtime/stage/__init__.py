"""The stage: incoming rows, stored as Arrow batches between preparation and writing, without Spark."""
