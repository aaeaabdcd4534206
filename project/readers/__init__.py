"""The matrix of readers and kinds of tables, and the effects of a spec on declared readers."""
