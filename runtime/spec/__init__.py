"""The declaration of a table as values and JSON: spec, column types, clustering policy and jobs."""
