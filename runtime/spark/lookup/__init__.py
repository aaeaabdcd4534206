"""Index lookup: finds which incoming keys a table contains, and in which file groups."""
