"""Replays: the files that other size limits would have made of the writes on a table's timeline."""
