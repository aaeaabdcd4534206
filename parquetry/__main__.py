"""`python -m parquetry`: the command line."""

from __future__ import annotations

from parquetry.cli.main import entry

if __name__ == "__main__":
    entry()
