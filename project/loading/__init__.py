"""Loading a project: resolution and checks across files."""
