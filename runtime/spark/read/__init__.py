"""Reads of tables and sources as DataFrames."""
