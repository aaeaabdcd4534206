"""The timeline of a Hudi table (layouts 1 and 2): instants, their contents, and the archive log."""
