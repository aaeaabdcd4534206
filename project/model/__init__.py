"""A project as resolved values: tables, targets, policies."""
