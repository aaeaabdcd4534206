"""``.hoodie_partition_metadata``: without this file, Hudi on the JVM does not find a partition.

Source: HoodiePartitionMetadata and FileSystemBackedTableMetadata of Hudi 0.15.
"""

from __future__ import annotations

from typing import Final

from parquetry.runtime.storage.model import ObjectStore

PARTITION_METADATA: Final = ".hoodie_partition_metadata"


def partition_metadata_path(partition: str) -> str:
    """Return the path of the metadata file of a partition. The path of an unpartitioned table is empty."""
    return f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA


def put_partition_metadata(store: ObjectStore, partition: str, *, instant: str) -> None:
    """Write the metadata file of a partition that ``instant`` created, unless the file exists."""
    depth = partition.count("/") + 1 if partition else 0
    content = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n"
    store.put_if_absent(partition_metadata_path(partition), content.encode())
