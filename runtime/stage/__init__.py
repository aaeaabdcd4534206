"""The stage: incoming rows as Arrow batches between preparation and writing. Knows no Spark."""
