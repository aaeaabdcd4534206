"""Incoming frames on their way to the stage: keys, generated columns, hashes."""
