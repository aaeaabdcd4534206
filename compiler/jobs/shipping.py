"""The part of parquetry that a cluster needs, as one zip for Spark's ``--py-files``."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import parquetry.runtime
from parquetry.confined_folder import ConfinedFolder

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16


def write_package(folder: ConfinedFolder, path: Path | str) -> Path:
    """Write the zip to ``path`` in the folder, and return its path.

    It contains the public modules and the runtime, but not the command line, compiler and project. Equal
    packages have equal bytes. Libraries (pyarrow, fastavro, fsspec and the storage driver) must be installed
    where the job runs.
    """
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_modules()):
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.external_attr = _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return folder.write(path, zipped.getvalue())


def _modules() -> Iterator[tuple[str, Path]]:
    root = Path(parquetry.__path__[0])
    runtime = Path(parquetry.runtime.__path__[0])
    for path in root.glob("*.py"):
        yield f"parquetry/{path.name}", path
    for path in runtime.rglob("*.py"):
        yield f"parquetry/runtime/{path.relative_to(runtime).as_posix()}", path
