"""Pure layout decisions: file sizes, groups, orders and skipping. Nothing here reads or writes files."""
