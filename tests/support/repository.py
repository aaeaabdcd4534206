"""Where the repository is, for tests that read its pages, examples or configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = ROOT / "tests"
