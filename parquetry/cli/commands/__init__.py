"""One module for each command, in the sections of the help."""
