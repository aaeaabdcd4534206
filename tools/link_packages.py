"""Link the folders of the repository below build/typing/parquetry.

The repository has ``project``, ``compiler``, ``runtime`` and ``templates`` beside ``parquetry``; setuptools
maps them into one import package. mypy and import-linter need to see that package on disk.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "typing" / "parquetry"
MAPPED = ("project", "compiler", "runtime", "templates")


def main() -> None:
    """Make all links again, so that removed modules disappear for the checkers."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for child in (ROOT / "parquetry").iterdir():
        if child.name != "__pycache__":
            (TARGET / child.name).symlink_to(child)
    for name in MAPPED:
        (TARGET / name).symlink_to(ROOT / name)


if __name__ == "__main__":
    main()
