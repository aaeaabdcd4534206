"""Plans: actions, changes, refusals, codec, application."""
