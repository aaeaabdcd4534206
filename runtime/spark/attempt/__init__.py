"""One attempt of a write: upserts, deletes, inserts, and the routing of rows to buckets."""
