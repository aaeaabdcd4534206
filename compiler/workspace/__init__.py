"""A project with its target: git, secrets, and observation of live tables."""
