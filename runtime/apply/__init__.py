"""The execution of a plan for a table: creation, requirements, properties and adoption."""
