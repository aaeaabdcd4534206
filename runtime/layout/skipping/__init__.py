"""Pure: what statistics of files and pages say about a SQL condition."""
