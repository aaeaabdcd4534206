"""Figures and forecasts of live tables, for plans."""
