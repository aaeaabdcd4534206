"""Spec files written for the user: adoption, drift acceptance, scaffold, exports."""
