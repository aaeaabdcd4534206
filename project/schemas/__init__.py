"""The JSON Schemas of project, table, policy and guardrail files, written by hand."""
