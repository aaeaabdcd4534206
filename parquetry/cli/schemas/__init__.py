"""The JSON Schemas of what commands answer with `--format json`."""
