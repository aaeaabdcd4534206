"""The JSON Schemas of project, table and policy files, written by hand."""
