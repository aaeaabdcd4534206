"""Where the rows of a write are staged.

On one machine the stage is a local folder of Arrow files that later tasks map into memory.
Elsewhere, where an executor and its disk can go, it is parquet in the table's store, which Spark
reads as well.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.paths import escape_glob


class StagePlace(Protocol):
    """Where a stage lies; travels to the tasks."""

    def create(self, name: str) -> AbstractContextManager[Any]:
        """A sink for the file ``name``, complete when the block ends."""
        ...

    def open(self, name: str) -> AbstractContextManager[Any]:
        """A random-access source of the file ``name``."""
        ...

    def spark_uri(self, name: str) -> str:
        """How Spark addresses the file ``name``."""
        ...

    def remove(self) -> None:
        """Remove the whole stage."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlace:
    """A folder of this machine."""

    folder: str

    @classmethod
    def make(cls, parent: str) -> LocalPlace:
        """A new folder below ``parent``."""
        return cls(folder=tempfile.mkdtemp(prefix="parquetry-stage-", dir=parent))

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        """As the protocol says."""
        with _as_storage_error(self.folder), pa.OSFile(f"{self.folder}/{name}", "wb") as sink:
            yield sink

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """As the protocol says."""
        with pa.memory_map(f"{self.folder}/{name}") as source:
            yield source

    def map(self, name: str) -> mmap.mmap:
        """The file ``name`` in memory, for as long as somebody holds it."""
        with Path(self.folder, name).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def spark_uri(self, name: str) -> str:
        """As the protocol says."""
        return "file://" + escape_glob(f"{self.folder}/{name}")

    def remove(self) -> None:
        """As the protocol says; what a task that is late still writes there does not undo a commit."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """A folder of the table's store."""

    store: ObjectStore
    folder: str

    def create(self, name: str) -> AbstractContextManager[Any]:
        """As the protocol says."""
        return self.store.create_file(f"{self.folder}/{name}")

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """As the protocol says."""
        with self.store.open_input(f"{self.folder}/{name}") as source:
            yield source

    def spark_uri(self, name: str) -> str:
        """As the protocol says."""
        return self.store.spark_uri(f"{self.folder}/{name}")

    def remove(self) -> None:
        """As the protocol says."""
        self.store.delete_folder(self.folder)


@contextmanager
def _as_storage_error(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot stage rows in {folder}: {error}; free space there or set spark.local.dir"
        ) from error
