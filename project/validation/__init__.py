"""JSON Schemas of specs, templates in values, units and readable schema errors."""
