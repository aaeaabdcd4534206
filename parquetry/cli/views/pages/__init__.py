"""Outcomes as pages for a browser."""
