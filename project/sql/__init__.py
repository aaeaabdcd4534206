"""SQL in specs, checked offline: tokens, grammar, guard."""
