"""The resolved values of a project: tables, targets, policies."""
