"""Plans: actions, changes, refusals, the saved format, and execution."""
