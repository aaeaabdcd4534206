"""Predictions of what declared queries read after a rewrite, from samples and statistics."""
