"""Commands about live tables."""
