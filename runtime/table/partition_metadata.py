"""``.hoodie_partition_metadata``: without it Hudi on the JVM does not see a partition at all.

Source: HoodiePartitionMetadata and FileSystemBackedTableMetadata of Hudi 0.15.
"""

from __future__ import annotations

from typing import Final

from parquetry.runtime.storage.open import ObjectStore

PARTITION_METADATA: Final = ".hoodie_partition_metadata"


def partition_metadata_path(partition: str) -> str:
    """The metadata file of a partition; the empty path is that of an unpartitioned table."""
    return f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA


def put_partition_metadata(store: ObjectStore, partition: str, *, instant: str) -> None:
    """Mark the folder as a partition made by ``instant``, unless it is marked already."""
    depth = partition.count("/") + 1 if partition else 0
    content = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n"
    store.put_if_absent(partition_metadata_path(partition), content.encode())
