"""An open table: configuration, applied record, schema, file-system view, statistics."""
