"""One attempt of a write: upsert, insert, routing to buckets."""
