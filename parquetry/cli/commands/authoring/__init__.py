"""Commands that write and check specs."""
