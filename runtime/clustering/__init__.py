"""Clustering a table: plan, forecast, rewrite."""
