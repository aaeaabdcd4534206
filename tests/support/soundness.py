"""What must hold on disk after any write of ours, whatever a reader makes of it."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from tests.support import names_below_hoodie
from tests.support.model import META_COLUMNS
from tests.support.timelines import LAYOUT_2

OPERATIONS = {
    "INSERT",
    "UPSERT",
    "BULK_INSERT",
    "DELETE",
    "INSERT_OVERWRITE",
    "INSERT_OVERWRITE_TABLE",
    "DELETE_PARTITION",
    "CLUSTER",
    "ALTER_SCHEMA",
}


def unsound(path: str | Path, *, since: str = "") -> list[str]:
    """What is wrong with a table on local disk; files and instants up to `since` are somebody else's."""
    base = Path(path)
    called_like_data = (f"{path}: called like data" for path in names_below_hoodie.in_folder(base))
    return [*_timeline(base, since), *_leftovers(base), *_files(base, since), *called_like_data]


def _timeline(base: Path, since: str) -> Iterator[str]:
    folder = base / ".hoodie" / "timeline"
    completes = folder.is_dir()
    folder = folder if completes else folder.parent
    names = {file.name for file in folder.iterdir() if file.is_file()}
    for name in sorted(names):
        instant, _, action = name.partition(".")
        time, _, completed_at = instant.partition("_")
        if action not in {"commit", "replacecommit"} or time <= since:
            continue
        if completes and completed_at <= time:
            yield f"{name}: completed before it was requested"
        pending = action if f"{time}.clustering.requested" not in names else "clustering"
        if f"{time}.{pending}.requested" not in names:
            yield f"{name}: no requested file"
        if f"{time}.{'inflight' if action == 'commit' else f'{pending}.inflight'}" not in names:
            yield f"{name}: no in-flight file"
        content = (folder / name).read_bytes()
        metadata = json.loads(LAYOUT_2.decode_commit(content).to_json() if completes else content)
        if not metadata["extraMetadata"].get("schema"):
            yield f"{name}: no schema"
        if metadata["operationType"] not in OPERATIONS:
            yield f"{name}: operation {metadata['operationType']}"
        yield from _stats(base, name, metadata)


def _stats(base: Path, name: str, metadata: dict[str, object]) -> Iterator[str]:
    written = metadata["partitionToWriteStats"]
    assert isinstance(written, dict)
    for partition, stats in written.items():
        for stat in stats:
            file = base / stat["path"]
            if stat["partitionPath"] != partition:
                yield f"{name}: {stat['path']} under partition {partition!r}"
            if not file.exists():
                continue  # cleaned since
            if file.stat().st_size != stat["fileSizeInBytes"]:
                yield f"{name}: {stat['path']} has {file.stat().st_size} bytes, not {stat['fileSizeInBytes']}"
            if pq.ParquetFile(file).metadata.num_rows != stat["numWrites"]:
                yield f"{name}: {stat['path']} has other than {stat['numWrites']} rows"


def _leftovers(base: Path) -> Iterator[str]:
    for file in base.rglob("*"):
        if file.is_dir():
            continue
        place = file.relative_to(base)
        if file.name.endswith(".tmp"):
            yield f"{place}: left over"
        if place.parts[:2] in {(".hoodie", ".temp"), (".hoodie", ".heartbeat")} and not file.name.endswith(
            ".crc"
        ):
            yield f"{place}: left over"
        if file.name.endswith(".crc") and not file.with_name(file.name[1 : -len(".crc")]).exists():
            yield f"{place}: checksum of a file that is gone"


def _files(base: Path, since: str) -> Iterator[str]:
    seen: dict[tuple[str, str], list[Path]] = defaultdict(list)
    folders = set()
    for file in base.rglob("*.parquet"):
        place = file.relative_to(base)
        if place.parts[0] == ".hoodie":
            continue
        folders.add(file.parent)
        parts = file.stem.split("_")
        if len(parts) != 3:
            yield f"{place}: not a base file name"
            continue
        seen[parts[0], parts[2]].append(place)
        if parts[2] > since:
            yield from _file(base, file)
    for (file_id, time), places in seen.items():
        if len(places) > 1:
            yield f"{len(places)} files of {file_id} at {time}"
    for folder in folders:
        metadata = folder / ".hoodie_partition_metadata"
        depth = len(folder.relative_to(base).parts)
        if not metadata.exists():
            yield f"{folder.relative_to(base)}: no partition metadata"
        elif f"partitionDepth={depth}" not in metadata.read_text().splitlines():
            yield f"{metadata.relative_to(base)}: partitionDepth is not {depth}"


def _file(base: Path, file: Path) -> Iterator[str]:
    place = file.relative_to(base)
    with pq.ParquetFile(file) as parquet:
        footer = {key.decode(): value.decode() for key, value in (parquet.metadata.metadata or {}).items()}
        schema = parquet.schema
        meta = parquet.read(columns=list(META_COLUMNS))
        names = parquet.schema_arrow.names
    if tuple(names[:5]) != META_COLUMNS:
        yield f"{place}: begins with {names[:5]}"
    for key in ("parquet.avro.schema", "org.apache.hudi.bloomfilter", "hoodie_bloom_filter_type_code"):
        if key not in footer:
            yield f"{place}: no {key} in the footer"
    if "ARROW:schema" in footer:
        yield f"{place}: an Arrow schema in the footer"
    if not base64.b64decode(footer.get("org.apache.hudi.bloomfilter", "")):
        yield f"{place}: empty Bloom filter"
    for number in range(len(schema)):
        column = schema.column(number)
        logical = str(column.logical_type)
        if logical.startswith("Decimal") and column.physical_type != "FIXED_LEN_BYTE_ARRAY":
            yield f"{place}: {column.path} is a decimal in {column.physical_type}"
        if column.physical_type == "INT96":
            yield f"{place}: {column.path} is INT96"
        if logical.startswith("Timestamp") and "timeUnit=microseconds" not in logical:
            yield f"{place}: {column.path} is {logical}"
    keys = meta.column("_hoodie_record_key").to_pylist()
    if keys:
        ordered = sorted(keys, key=lambda key: key.encode("utf-16-be"))
        if (
            footer.get("hoodie_min_record_key") != ordered[0]
            or footer.get("hoodie_max_record_key") != ordered[-1]
        ):
            yield f"{place}: key range in the footer is not that of the rows"
    elif "hoodie_min_record_key" in footer:
        yield f"{place}: key range without rows"
    if set(meta.column("_hoodie_file_name").to_pylist()) - {file.name}:
        yield f"{place}: rows name another file"
    if set(meta.column("_hoodie_partition_path").to_pylist()) - {"/".join(place.parts[:-1])}:
        yield f"{place}: rows name another partition"
    sequence = meta.column("_hoodie_commit_seqno").to_pylist()
    if len(set(sequence)) != len(sequence):
        yield f"{place}: a sequence number twice"
