"""Pure data skipping: the files, row groups and rows that a SQL condition needs, by statistics."""
