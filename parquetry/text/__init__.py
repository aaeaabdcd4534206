"""Rules for text that others wrote: how it is quoted, printed, masked, matched and read as SQL."""
