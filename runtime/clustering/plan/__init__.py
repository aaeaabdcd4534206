"""Clustering plans: due files, scheduling, execution and history."""
