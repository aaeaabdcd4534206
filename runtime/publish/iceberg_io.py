"""The files of Iceberg's metadata as pyiceberg reads and writes them: objects in the store of the table.

No path leads out of the folder of the metadata, whatever a manifest names. This module needs
pyiceberg. Only ``runtime.publish.iceberg`` and ``runtime.publish.iceberg_catalogs`` import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from types import TracebackType
from typing import Any, Final, Self

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from parquetry.message import Value, command
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.publish.model import METADATA_FOLDER
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.regular_file import MOST_BYTES

STORE_KEY: Final = "parquetry.store"
"""The property of a FileIO that is the store of the table. pyiceberg makes a FileIO of properties only."""


class StoreIO(FileIO):
    """The folder ``metadata`` of a table's store. Locations are the URIs of its files."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__({})
        self.store: ObjectStore = properties[STORE_KEY]

    def path(self, location: str) -> str:
        """Return the path of a location in the store.

        Raises:
            CorruptTableError: If the location is not in the folder of the metadata.

        """
        prefix = f"{self.store.uri}/{METADATA_FOLDER}/"
        name = location.removeprefix(prefix)
        if not location.startswith(prefix) or not name or "/" in name or name in (".", ".."):
            raise CorruptTableError(
                "{table}: its Iceberg metadata names {file}, which is outside of its folder {folder}; remove "
                "that metadata, and {command} makes it again",
                table=self.store.uri,
                file=Value.uri(location),
                folder=METADATA_FOLDER,
                command=command("publish", "TABLE"),
            )
        return f"{METADATA_FOLDER}/{name}"

    def new_input(self, location: str) -> InputFile:
        """Return the file at a location, for reading."""
        return _Input(self, location)

    def new_output(self, location: str) -> OutputFile:
        """Return the file at a location, for writing."""
        return _Output(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. An absent file is ignored."""
        self.store.delete(self.path(location if isinstance(location, str) else location.location))


class _Input(InputFile):
    def __init__(self, io: StoreIO, location: str) -> None:
        super().__init__(location)
        self._io = io

    def __len__(self) -> int:
        found = self._io.store.stat(self._io.path(self.location))
        return 0 if found is None else found.size_bytes

    def exists(self) -> bool:
        return self._io.store.stat(self._io.path(self.location)) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002, ARG002 - pyiceberg's method
        return BytesIO(self._io.store.read(self._io.path(self.location), most_bytes=MOST_BYTES))


class _Output(OutputFile):
    def __init__(self, io: StoreIO, location: str) -> None:
        super().__init__(location)
        self._io = io
        self.size_bytes = 0

    def __len__(self) -> int:
        return self.size_bytes

    def exists(self) -> bool:
        return self._io.store.stat(self._io.path(self.location)) is not None

    def to_input_file(self) -> InputFile:
        return _Input(self._io, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002, ARG002 - pyiceberg's method
        return _Stream(self)

    def put(self, content: bytes) -> None:
        """Write the file. Its name is new, as it contains a random id."""
        self._io.store.put(self._io.path(self.location), content)
        self.size_bytes = len(content)


class _Stream(BytesIO):
    """A file that is written whole when it is closed, unless its block failed."""

    def __init__(self, file: _Output) -> None:
        super().__init__()
        self._file = file
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        self.close()

    def close(self) -> None:
        if not self.closed and not self._failed:
            self._file.put(self.getvalue())
        super().close()
