"""Read-only reports: inspect, timeline, diff, doctor, simulate and HTML pages."""
