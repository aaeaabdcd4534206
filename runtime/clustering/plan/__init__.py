"""Clustering plans: what is due, scheduling, execution, history."""
