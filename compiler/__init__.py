"""Declared plus observed: manifests, differences, plans, jobs and reviews."""
