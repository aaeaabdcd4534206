"""Outcomes of commands as text, JSON, Markdown and pages."""
