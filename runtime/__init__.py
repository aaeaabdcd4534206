"""Access to tables: storage, timeline, file layout, writes and table services."""
