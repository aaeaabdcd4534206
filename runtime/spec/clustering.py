"""What a table's spec says about clustering: when, which files, and in which order their rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from parquetry.runtime.spec.codec import UNLESS_NONE, to_json_value
from parquetry.runtime.spec.sizing import SizingPolicy

MIB: Final = 1024 * 1024
STITCH: Final = "stitch"
"""The strategy that leaves rows as they come; no function lays them out."""

ENCRYPT: Final = "encrypt"
PRUNE: Final = "prune"
_DIGEST_LENGTH: Final = 16


class Trigger(StrEnum):
    """Who starts clustering."""

    OFF = "off"
    ASYNC = "async"
    INLINE = "inline"


class Existing(StrEnum):
    """What a new policy means for files that were there before it was applied."""

    GRADUAL = "gradual"
    KEEP = "keep"
    NOW = "now"


class ClusteringScope(StrEnum):
    """How far rows are ordered: within a group, across the groups of a partition, or what serves better."""

    AUTO = "auto"
    GROUP = "group"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """Which partitions are looked at: all of them, or what one of the first three rules picks.

    ``recent`` and ``skip_newest`` count partitions by value, after ``selected`` or ``regex``.
    """

    selected: tuple[str, ...] = ()
    regex: str | None = None
    recent: int | None = None
    skip_newest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """Which files are rewritten together. ``strategy`` is the name of an entry point."""

    strategy: str = "size"
    small_file_limit_bytes: int = 100 * MIB
    target_file_size_bytes: int = 120 * MIB
    max_group_size_bytes: int = 2048 * MIB
    max_groups: int = 30
    partitions: PartitionFilter = field(default_factory=PartitionFilter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """How the rows of a group are laid out. ``strategy`` is the name of an entry point.

    ``encryption_key`` is the reference of the key that ``then: [encrypt]`` is about. Whatever it says,
    files are encrypted as the table's ``files`` say: with another key all files are due.
    """

    strategy: str = STITCH
    columns: tuple[str, ...] = ()
    scope: ClusteringScope = ClusteringScope.AUTO
    split_by: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    encryption_key: str | None = field(default=None, metadata=UNLESS_NONE)

    @property
    def digest(self) -> str:
        """What a file's footer carries that was written by this policy: 16 hexadecimal digits.

        The scope is not in it: within a file the rows have the same order in any scope. Plans compare it with
        that of every file, so it is computed once.
        """
        return _digest(self)

    @property
    def arranges_rows(self) -> bool:
        """Whether a file written by another policy differs in more than its size."""
        return self.strategy != STITCH or bool(self.split_by or self.then)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringSpec:
    """A table's ``clustering`` section."""

    trigger: Trigger = Trigger.OFF
    every_commits: int = 4
    existing: Existing = Existing.GRADUAL
    plan: PlanPolicy = field(default_factory=PlanPolicy)
    execution: ExecutionPolicy = field(default_factory=ExecutionPolicy)

    @classmethod
    def following(cls, limits: SizingPolicy) -> ClusteringSpec:
        """The clustering of a table that declares none: the defaults, with sizes as in YAML."""
        target = limits.max_file_size_bytes
        return cls(
            plan=PlanPolicy(
                small_file_limit_bytes=limits.small_file_limit_bytes or target * 5 // 6,
                target_file_size_bytes=target,
            )
        )


@lru_cache(maxsize=1024)
def _digest(execution: ExecutionPolicy) -> str:
    said = to_json_value(execution)
    del said["scope"]
    content = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_LENGTH]
