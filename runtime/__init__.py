"""What touches tables: storage, timeline, layout decisions, writes and table services."""
