"""Key lookup: which incoming keys a table has, and in which file groups."""
