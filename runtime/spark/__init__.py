"""Everything that needs Spark, and nothing else does."""
