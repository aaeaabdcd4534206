"""The command line: options in, one use case, a view, an exit code out."""
