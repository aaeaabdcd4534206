"""Tests of rows: those of one table counted in one scan, and samples of what failed."""
