"""Outcomes as text and JSON."""
