"""The clustering policy of a table's spec: when to cluster, which files, and the order of their rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from parquetry.runtime.spec.codec import OMIT_EMPTY, to_json_value
from parquetry.runtime.spec.sizing import MAX_FILE_SIZE_BYTES, SizingPolicy

MIB: Final = 1024 * 1024
STITCH: Final = "stitch"
"""The strategy that keeps the order of rows. It has no layout function."""

ENCRYPT: Final = "encrypt"
PRUNE: Final = "prune"
_DIGEST_LENGTH: Final = 16


class Trigger(StrEnum):
    """When clustering runs: never, in its own job, or as part of writes."""

    OFF = "off"
    ASYNC = "async"
    INLINE = "inline"


class Existing(StrEnum):
    """The effect of a new policy on files that were written before it was applied."""

    GRADUAL = "gradual"
    KEEP = "keep"
    NOW = "now"


class ClusteringScope(StrEnum):
    """The scope of the row order: a group, all groups of a partition, or automatically chosen."""

    AUTO = "auto"
    GROUP = "group"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """The partitions to cluster: all of them, or those that one of the first three rules picks.

    ``recent`` and ``skip_newest`` count partitions by value, after ``selected`` or ``regex``.
    """

    selected: tuple[str, ...] = ()
    regex: str | None = None
    recent: int | None = None
    skip_newest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """The rules that pick the files to rewrite together. ``strategy`` is the name of an entry point."""

    strategy: str = "size"
    small_file_limit_bytes: int = 100 * MIB
    target_file_size_bytes: int = MAX_FILE_SIZE_BYTES
    max_group_size_bytes: int = 2048 * MIB
    max_groups: int = 30
    partitions: PartitionFilter = field(default_factory=PartitionFilter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """The row layout of a group. ``strategy`` is the name of an entry point.

    ``encryption_key`` is the reference of the key for ``then: [encrypt]``, which makes all files with another
    key due. Files are always encrypted with the key of the table's ``files`` section.
    """

    strategy: str = STITCH
    columns: tuple[str, ...] = ()
    scope: ClusteringScope = ClusteringScope.AUTO
    split_by: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    encryption_key: str | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def digest(self) -> str:
        """The digest in the footer of each file that this policy wrote: 16 hexadecimal digits.

        It does not depend on the scope, as the order of rows within a file is the same in any scope. Plans
        compare it with the digest of every file, so it is computed once.
        """
        return _digest(self)

    @property
    def arranges_rows(self) -> bool:
        """True if a file that another policy wrote differs in more than its size."""
        return self.strategy != STITCH or bool(self.split_by or self.then)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringSpec:
    """The ``clustering`` section of a table."""

    trigger: Trigger = Trigger.OFF
    every_commits: int = 4
    existing: Existing = Existing.GRADUAL
    plan: PlanPolicy = field(default_factory=PlanPolicy)
    execution: ExecutionPolicy = field(default_factory=ExecutionPolicy)

    @classmethod
    def defaults_for(cls, limits: SizingPolicy) -> ClusteringSpec:
        """Return the default clustering of a table that declares none, with sizes derived as in YAML."""
        target = limits.max_file_size_bytes
        return cls(
            plan=PlanPolicy(
                small_file_limit_bytes=limits.small_file_limit_bytes or target * 5 // 6,
                target_file_size_bytes=target,
            )
        )


@lru_cache(maxsize=1024)
def _digest(execution: ExecutionPolicy) -> str:
    document = to_json_value(execution)
    del document["scope"]
    content = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LENGTH]
