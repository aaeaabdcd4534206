"""Tests of tables: what is measured of live layouts is held against declared limits."""
