"""Pure: the files that are due for clustering, and their groups."""
