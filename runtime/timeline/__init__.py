"""The timeline of a Hudi table (version 6, layout 1): instants, what they say, and the archive log."""
