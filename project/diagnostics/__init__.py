"""Diagnostics: codes, positions in files and the rendering of source lines."""
