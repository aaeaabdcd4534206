"""Recording a plan in the table: creation, requirements, properties, adoption."""
