"""Findings: codes, places in files, rendering of source lines."""
