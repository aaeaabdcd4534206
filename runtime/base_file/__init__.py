"""Writing base files: merge, encoding, sizing, footers."""
