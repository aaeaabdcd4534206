"""Outcomes of runs, services and purges."""
