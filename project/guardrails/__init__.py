"""Declared rules over plans: CEL expressions, compiled once and limited in cost."""
