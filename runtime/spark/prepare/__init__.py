"""Preparation of incoming frames for the stage: types, keys, generated columns and hashes."""
