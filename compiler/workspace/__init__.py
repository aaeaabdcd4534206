"""A project at a target beside its git tree and its live tables."""
