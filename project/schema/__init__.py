"""JSON Schema of specs, units, interpolation, column types."""
