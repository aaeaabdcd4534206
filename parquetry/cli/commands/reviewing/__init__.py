"""Commands that show the effect of a change."""
