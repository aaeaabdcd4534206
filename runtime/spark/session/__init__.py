"""Spark sessions: start, settings, jobs of numbered tasks, the check of SQL, and conversion of types."""
