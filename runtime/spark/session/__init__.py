"""Spark sessions: settings, start, numbered tasks, the SQL guard, conversion of types."""
