"""A project with its target: git, secrets, observation of live tables."""
