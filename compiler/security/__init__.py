"""What a project may decide, open and show: authority, untrusted branches, settings, secrets, masks."""
