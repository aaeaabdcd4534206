"""Comparison of declared and live tables: plans, jobs, manifests, evidence and reviews."""
