"""The published format ``iceberg`` until it is used: pyiceberg is imported then, as it is an extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.publish.model import AddedFiles, PartitionValues, Published, Snapshot
from parquetry.runtime.spec.table_spec import IcebergFormat
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import OnceProperty

if TYPE_CHECKING:
    from parquetry.runtime.publish.iceberg import IcebergMetadata


class PublishedIceberg:
    """The published format ``iceberg`` of the table in a store.

    Each method raises UnsupportedTableError if the table may not use the catalog (see
    :class:`~parquetry.runtime.allowed.Allowed`), or if pyiceberg is not installed.
    """

    name: Final = "iceberg"

    def __init__(self, store: ObjectStore, declared: IcebergFormat) -> None:
        self._store = store
        self._declared = declared

    def published(self) -> Published | None:
        """Return the state of the newest metadata, or None if there is none."""
        return self._format.published()

    def paths(self, state: Published, folders: Mapping[str, PartitionValues] | None = None) -> frozenset[str]:
        """Return the paths of the files that the state names, in these folders or in all."""
        return self._format.paths(state, folders)

    def publish(
        self,
        snapshot: Snapshot,
        added: AddedFiles,
        removed: Sequence[str],
        *,
        before: Published | None,
    ) -> bool:
        """Write one version of the metadata with one more snapshot; return False if another came first."""
        return self._format.publish(snapshot, added, removed, before=before)

    def repair(self, before: Published) -> None:
        """Put the version hint if a killed process left it behind."""
        self._format.repair(before)

    def expire(self, earliest: str, savepoints: Sequence[str]) -> None:
        """Forget the snapshots before the instant ``earliest``."""
        self._format.expire(earliest, savepoints)

    @OnceProperty
    def _format(self) -> IcebergMetadata:
        if (catalog := self._declared.catalog) is not None:
            self._store.allowed.check_catalog(self._store.uri, catalog.name, catalog.digest)
        try:
            from parquetry.runtime.publish.iceberg import IcebergMetadata  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise UnsupportedTableError(
                "{table}: publishing as Iceberg needs the package {package}; install parquetry[iceberg]",
                table=self._store.uri,
                package=error.name or "pyiceberg",
            ) from error
        return IcebergMetadata(self._store, self._declared)
