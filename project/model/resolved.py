"""A project as its commands see it: layers merged, templates evaluated, units converted.

The words are those of the YAML; sizes end in ``_bytes`` and durations in ``_seconds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from parquetry.project.guardrails.model import Guardrail
from parquetry.project.model.prices import Prices
from parquetry.project.schema.interpolate import Secret
from parquetry.runtime.spec.table_spec import TableSpec

SERVICES_BYTES: Final = 10 * 2**30
"""What services may rewrite in one run where no target says otherwise."""


class Layer(StrEnum):
    """Where a value can come from; a later layer wins over an earlier one."""

    BUILT_IN = "default"
    DEFAULTS = "defaults"
    POLICY = "policy"
    TABLE = "table"
    OVERRIDES = "overrides"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written. Built-in defaults have no file."""

    layer: Layer
    file: str | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else "default"


BUILT_IN = Origin(Layer.BUILT_IN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerValue:
    """What one layer says about a setting, as it was written."""

    value: Any
    origin: Origin


History = Mapping[str, tuple[LayerValue, ...]]
"""What the layers say about each dotted path, from the weakest to the strongest."""


class Launcher(StrEnum):
    """Who starts Spark."""

    IN_PROCESS = "in-process"
    SPARK_SUBMIT = "spark-submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many bytes may be rewritten; None is no limit."""

    per_run_bytes: int | None
    per_apply_bytes: int | None
    per_commit_bytes: int | None

    @property
    def services_bytes(self) -> int:
        """What services may rewrite in one run: as declared, else 10 GiB."""
        return SERVICES_BYTES if self.per_run_bytes is None else self.per_run_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is started."""

    launcher: Launcher = Launcher.IN_PROCESS
    master: str | Secret | None = None
    submit_args: tuple[str | Secret, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSetting:
    """A setting of a target that acts on jobs, as it is recorded: see ``project.model.target_settings``.

    ``written`` is the value for a copy in YAML; ``exact`` is the one with its passwords: to be compared,
    never to be shown or written down.
    """

    path: str
    value: Any
    written: Any
    exact: Any = field(repr=False)
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedSetting:
    """A value of a setting that the target allows to execute; None is that there be no such setting."""

    setting: str
    value: Any
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The settings of one target, by path, what it allows, and where the target stands."""

    origin: Origin
    settings: tuple[TargetSetting, ...] = ()
    allow: tuple[AllowedSetting, ...] = ()


NO_SETTINGS: Final = TargetSettings(origin=BUILT_IN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place that tables are kept in. ``warehouse`` is an absolute path or an S3 URI.

    Without an environment, what was read from one holds the placeholder ``${NAME}``. ``signing_keys`` are
    references to the keys that sign applied records, the first to the one that signs now. Without ``prices``
    nothing costs anything that plans would show. ``tests_after_run`` has `run` execute the tests of tables.
    """

    name: str
    warehouse: str
    spark: SparkSettings
    storage: Mapping[str, Any]
    budget: Budget
    protect: tuple[str, ...]
    declared: TargetSettings
    signing_keys: tuple[str, ...] = ()
    prices: Prices | None = None
    tests_after_run: bool = False

    def protects(self, table: str) -> bool:
        """Whether every breaking change of the table is refused."""
        return any(fnmatchcase(table, pattern) for pattern in self.protect)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowEntry:
    """A finding that the project accepts; ``guardrail`` is the one that denies, for code SC801."""

    code: str
    table: str
    reason: str
    origin: Origin
    guardrail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTable:
    """A table after all layers, and where each of its values was written.

    ``spec`` is what is recorded in the table when it is applied: without the layers of the project, and
    without where the table and its files lie.
    ``tags`` are in the order of the layers, those of the spec sorted.
    ``location`` is an absolute path or an S3 URI; ``location_declared`` is the same relative
    to the project's root where it lies in there, so that it is equal in every checkout.
    ``moved_from`` is the name that the table had before it was renamed.
    """

    spec: TableSpec
    file: str
    location: str
    location_declared: str
    moved_from: str | None
    policy: str | None
    tags: tuple[str, ...]
    settings: Mapping[str, Any] = field(repr=False)
    origins: Mapping[str, Origin] = field(repr=False)
    history: Callable[[], History] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the table, by which a project has one."""
        return self.spec.name

    def origin(self, path: str) -> Origin:
        """Where the value at a dotted path was written, such as ``sizing.max_file_size``.

        Entries of lists that have names go by them (``columns.departed_at.type``), others by
        index. For a path that was not written the nearest one above it; built in when there
        is none.
        """
        while path not in self.origins and "." in path:
            path = path.rpartition(".")[0]
        return self.origins.get(path, BUILT_IN)

    def declared(self, path: str) -> Any:
        """The value at a dotted path as it was written, such as ``120MiB``; None without one."""
        return self.settings.get(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProject:
    """A valid project at one target; tables are in the order of their names.

    ``settings`` are those of every target, by name.
    ``other_warehouses`` are those of the targets that were not chosen: absolute, or None where
    environment variables that are not set here decide. ``environment`` are the names of those that the
    project declares to be no secrets.
    """

    root: Path
    name: str
    description: str | None
    targets: tuple[str, ...]
    target: Target
    tables: tuple[ResolvedTable, ...]
    allow: tuple[AllowEntry, ...]
    default_target: str | None = None
    settings: Mapping[str, TargetSettings] = field(default_factory=dict)
    other_warehouses: tuple[str | None, ...] = ()
    environment: frozenset[str] = frozenset()
    guardrails: tuple[Guardrail, ...] = ()
