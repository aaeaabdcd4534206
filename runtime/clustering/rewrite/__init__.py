"""Rewriting one file group: order, sorted runs, output files."""
