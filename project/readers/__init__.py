"""What readers make of tables: the matrix of a run, and what it means for a declared table."""
