"""What a clustering has given up to writers while the rest of it is published.

Once its replacecommit is there, a file of its instant is in the table by its name alone. So before the
files of what is given up are listed and deleted, a note names its buckets, and a task looks for the note
after its file has appeared: either the task sees the note, or the listing sees the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from parquetry.message import run
from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.sidecars import ABANDONED_FOLDER


def abandon(store: ObjectStore, instant: str, buckets: Mapping[int, str]) -> None:
    """Note that nothing of these buckets, by number with their partition, will be published."""
    named = {str(number): partition for number, partition in sorted(buckets.items())}
    store.put(_path(instant), json.dumps(named, separators=(",", ":")).encode())


def is_abandoned(store: ObjectStore, instant: str, bucket: int) -> bool:
    """Whether that clustering has given that bucket up."""
    return str(bucket) in _read(store, _path(instant))


def instants_with_abandoned(store: ObjectStore) -> frozenset[str]:
    """The clusterings that have given something up."""
    return frozenset(
        name.removesuffix(".json")
        for info in store.list(ABANDONED_FOLDER)
        if (name := info.path.rpartition("/")[2]).endswith(".json")
    )


def partitions_with_abandoned(store: ObjectStore) -> set[str]:
    """The partitions in which clusterings have given something up."""
    notes = map_each(sorted(instants_with_abandoned(store)), lambda instant: _read(store, _path(instant)))
    return {partition for note in notes for partition in note.values()}


def _path(instant: str) -> str:
    return f"{ABANDONED_FOLDER}/{instant}.json"


def _read(store: ObjectStore, path: str) -> dict[str, str]:
    try:
        content = store.read(path)
    except NotFoundError:
        return {}
    try:
        return {str(number): str(partition) for number, partition in parsed_json(content).items()}
    except (ValueError, AttributeError) as error:
        raise CorruptTableError(
            f"{store.uri}/{path}: not the numbers of buckets and their partitions: {error}; remove the file "
            "and " + run("service", "clean", "TABLE")
        ) from error
