"""Entries of tables in catalogs."""
