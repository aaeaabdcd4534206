"""Jinja templates: job scripts and reviews."""
