"""The content of a completed commit or replacecommit of layout 2: HoodieCommitMetadata as an Avro container.

The fields are those of the JSON of layout 1, and a few that log files and statistics of reads need. Source:
CommitMetadataSerDeV2 and hudi-common/src/main/avro/HoodieCommitMetadata.avsc of Hudi 1.2.
"""

from __future__ import annotations

from typing import Any, Final

from parquetry.runtime.timeline.avro_model import decode_container, encode_container
from parquetry.runtime.timeline.commit import CommitMetadata

_COMMIT: Final = "commit/HoodieCommitMetadata"
_REPLACE_COMMIT: Final = "commit/HoodieReplaceCommitMetadata"


def encode_commit(metadata: CommitMetadata) -> bytes:
    """Return the content of the state file of a completed commit. Equal commits give equal bytes."""
    return encode_container(_REPLACE_COMMIT if metadata.replaces else _COMMIT, _to_avro(metadata))


def encode_profile(metadata: CommitMetadata) -> bytes:
    """Return the content of the inflight file of a write with this workload profile.

    Hudi puts HoodieCommitMetadata there, even if the write replaces file groups.
    """
    return encode_container(_COMMIT, _to_avro(metadata))


def decode_commit(content: bytes, *, place: str = "commit metadata") -> CommitMetadata:
    """Return the commit in a state file of any Hudi version with layout 2.

    The order of the fields does not matter. Unknown fields are ignored, and missing ones get defaults.

    Raises:
        CorruptTableError: If the content is empty, not an Avro container, or a field has the wrong type. The
            message starts with ``place``.

    """
    return CommitMetadata.from_document(decode_container(content, place=place), place=place)


def _to_avro(metadata: CommitMetadata) -> dict[str, Any]:
    """Return the Avro value of a commit. Hudi leaves ``version`` null, and fields without a value too."""
    document = metadata.to_document()
    for stats in document["partitionToWriteStats"].values():
        for stat in stats:
            stat |= {"totalLogReadTimeMs": 0, "numUpdates": 0}
    return document | {"version": None}
