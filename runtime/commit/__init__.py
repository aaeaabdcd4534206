"""Atomic writes: claim, lock, conflict check, publication, and recovery of dead writers."""
