"""Commands that show what a change would do."""
