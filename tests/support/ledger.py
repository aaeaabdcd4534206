"""What a ledger says of files, for tests that ask for nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.runtime.sources.ledger import SourceFile, history
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.effective_writes import EffectiveWrites


def consumed(store: ObjectStore, source: str, effective: EffectiveWrites) -> Mapping[str, SourceFile]:
    """The newest consumed version of every file, by its path as it was declared then."""
    entries = history(store, source, effective)
    return {file.path: file for _, consumption in entries for file in consumption.files}
