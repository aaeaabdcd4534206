"""Loading of a project: resolution of its layers, and checks across files."""
