"""An open table: its configuration, applied record, schema, file system view and statistics."""
