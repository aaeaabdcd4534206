"""Tests of tables: measurements of live tables are compared with declared limits."""
