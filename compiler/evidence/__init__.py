"""What was measured and predicted of live tables, for plans."""
