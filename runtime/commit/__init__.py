"""One write, all or nothing: claim, lock, conflict check, publication, recovery of dead writers."""
