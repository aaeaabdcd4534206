"""Plans in pull requests: shown there, approved there, and followed up there."""
