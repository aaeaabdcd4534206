"""Git: the repository of a project, and its spec files at a revision."""
