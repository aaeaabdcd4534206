"""Tests of rows: one scan counts the failures of all tests of a table, and samples show failing rows."""
