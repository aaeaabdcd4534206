"""Evaluation of rules over plans: verdicts, and the example plans beside the rules."""
