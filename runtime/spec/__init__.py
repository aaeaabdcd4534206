"""What a table is declared to be, as values and JSON: spec, column types, clustering policy, job."""
