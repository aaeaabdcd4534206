"""Reviews of plans in pull requests: comments, approvals and follow-ups."""
