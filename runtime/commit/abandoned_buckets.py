"""Buckets that a clustering leaves to writers while it publishes the rest.

After the replacecommit is published, any file with the instant in its name belongs to the table. So before
clustering lists and deletes the files of abandoned buckets, it writes a note that names these buckets. A task
reads the note after its file has appeared. Then either the task sees the note, or the listing sees the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from parquetry.errors import message_of
from parquetry.message import run
from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.sidecars import ABANDONED_FOLDER


def abandon(store: ObjectStore, instant: str, buckets: Mapping[int, str]) -> None:
    """Note that the buckets will not be published; ``buckets`` maps their numbers to partitions."""
    named = {str(number): partition for number, partition in sorted(buckets.items())}
    store.put(_path(instant), json.dumps(named, separators=(",", ":")).encode())


def is_abandoned(store: ObjectStore, instant: str, bucket: int) -> bool:
    """Return whether the clustering has abandoned the bucket."""
    return str(bucket) in _read(store, _path(instant))


def instants_with_abandoned(listed: Iterable[ObjectInfo]) -> frozenset[str]:
    """Return the instants of the clusterings with a note of abandoned buckets among the listed files."""
    notes = (info.path.removeprefix(f"{ABANDONED_FOLDER}/") for info in listed if _is_note(info.path))
    return frozenset(name.removesuffix(".json") for name in notes)


def partitions_with_abandoned(store: ObjectStore) -> set[str]:
    """Return the partitions in which clusterings have abandoned buckets."""
    instants = sorted(instants_with_abandoned(store.list(ABANDONED_FOLDER)))
    notes = map_each(instants, lambda instant: _read(store, _path(instant)))
    return {partition for note in notes for partition in note.values()}


def _is_note(path: str) -> bool:
    return path.startswith(f"{ABANDONED_FOLDER}/") and path.endswith(".json")


def _path(instant: str) -> str:
    return f"{ABANDONED_FOLDER}/{instant}.json"


def _read(store: ObjectStore, path: str) -> dict[str, str]:
    """Return the partitions of the abandoned buckets by bucket number; empty if there is no note."""
    try:
        content = store.read(path)
    except NotFoundError:
        return {}
    try:
        return {str(number): str(partition) for number, partition in parsed_json(content).items()}
    except (ValueError, AttributeError) as error:
        raise CorruptTableError(
            "{table}/{file}: the note of abandoned buckets cannot be read: {reason}; remove the file "
            "and {command}",
            table=store.uri,
            file=path,
            reason=message_of(error),
            command=run("service", "clean", "TABLE"),
        ) from error
