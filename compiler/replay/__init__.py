"""What other limits on file sizes would have made of the writes that a table's timeline records."""
