"""Rules over plans as they are evaluated: verdicts, and the example plans beside the rules."""
