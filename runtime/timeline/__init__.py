"""The timeline of a Hudi table (version 6, layout 1): instants, their contents, and the archive log."""
