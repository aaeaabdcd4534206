"""What readers of other programs take for data, looked for where none is: below ``.hoodie/``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.support.stores import WRITES, CountingStore

# Hudi itself keeps the archive of layout 2 in Parquet files.
_LIKE_DATA = re.compile(
    r"^\.hoodie/(?!timeline/history/).*\.(parquet|orc|avro|hfile|csv|tsv|feather|arrow|ipc)$|^\.hoodie/.*\.log\."
)


def like_data(paths: Iterable[str]) -> list[str]:
    """Of paths within a table those that a reader may take for data though they are none."""
    return sorted(path for path in paths if _LIKE_DATA.search(path))


def in_folder(path: Path | str) -> list[str]:
    """The same of the files of a table on local disk."""
    root = Path(path)
    return like_data(file.relative_to(root).as_posix() for file in root.rglob("*"))


def written(store: CountingStore) -> list[str]:
    """The same of all that was ever written or removed through the store."""
    return like_data(line for kind, path in store.calls() if kind in WRITES for line in path.split("\n"))
