"""The clustering of a table: plan, forecast and rewrite."""
