"""Rules over plans as they are declared: CEL expressions, compiled once and bounded."""
