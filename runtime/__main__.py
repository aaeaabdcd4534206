"""`python -m parquetry.runtime JOB.json`: execute one job."""

from __future__ import annotations

import sys

from parquetry.runtime.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
