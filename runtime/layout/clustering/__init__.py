"""Pure: which files are due for clustering, in which groups."""
