"""The rules for what a project may decide, open and show: authority, settings, secrets and masks."""
