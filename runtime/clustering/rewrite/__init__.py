"""The rewrite of a clustering group: row order, sorted runs and output files."""
