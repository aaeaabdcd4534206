"""Offline checks of SQL in specs: tokens, grammar and guard."""
