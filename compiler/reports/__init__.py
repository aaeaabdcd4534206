"""Read-only reports: inspect, timeline, diff, doctor, simulate, pages."""
