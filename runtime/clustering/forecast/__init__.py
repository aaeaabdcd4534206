"""Predicting what a rewrite makes of the declared queries, from samples and statistics."""
