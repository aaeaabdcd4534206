"""Standard output and standard error: styles, wrapping, messages."""
