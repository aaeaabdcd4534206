"""A project as commands use it: layers merged, templates evaluated, units converted.

The names are those of the YAML; sizes end in ``_bytes`` and durations in ``_seconds``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from parquetry.project.guardrails.model import Guardrail
from parquetry.project.model.operations import Operations
from parquetry.project.model.prices import Prices
from parquetry.project.validation.interpolate import Secret
from parquetry.runtime.spec.table_spec import TableSpec

SERVICES_BYTES: Final = 10 * 2**30
"""The bytes that table services may rewrite in one run if no target sets a limit."""


class Layer(StrEnum):
    """The layers that a value can come from; a later one wins."""

    BUILT_IN = "default"
    DEFAULTS = "defaults"
    TARGET = "target"
    POLICY = "policy"
    TABLE = "table"
    OVERRIDES = "overrides"


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a value in a file. Built-in defaults have no file."""

    layer: Layer
    file: str | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else "default"


BUILT_IN = Origin(Layer.BUILT_IN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerValue:
    """The value of a setting in one layer, as written."""

    value: Any
    origin: Origin


History = Mapping[str, tuple[LayerValue, ...]]
"""The values of the layers for each dotted path, from the weakest layer to the strongest."""


class Launcher(StrEnum):
    """The ways to start Spark."""

    IN_PROCESS = "in-process"
    SPARK_SUBMIT = "spark-submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of the bytes to rewrite; None is no limit."""

    per_run_bytes: int | None
    per_apply_bytes: int | None
    per_commit_bytes: int | None

    @property
    def services_bytes(self) -> int:
        """The bytes that table services may rewrite in one run; 10 GiB if no limit is declared."""
        return SERVICES_BYTES if self.per_run_bytes is None else self.per_run_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLaunchSettings:
    """The settings with which Spark is started."""

    launcher: Launcher = Launcher.IN_PROCESS
    master: str | Secret | None = None
    submit_args: tuple[str | Secret, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """The absolute path of the file, and the URL of the push gateway, that get the metrics of a target."""

    file: str | None = None
    push_gateway: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageSettings:
    """The URL of the server and the absolute path of the file that get the events of a target.

    ``console`` writes them to standard error too.
    """

    url: str | None = None
    api_key: str | Secret | None = None
    file: str | None = None
    console: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSetting:
    """A setting of a target that affects jobs, in the forms that ``project.model.target_settings`` makes.

    ``value`` is the recorded form and ``written`` the form for a copy in YAML. ``exact`` contains passwords:
    it is only compared, never shown or written.
    """

    path: str
    value: Any
    written: Any
    exact: Any = field(repr=False)
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedSetting:
    """A value that the target allows for a setting that can execute code; None allows its absence."""

    setting: str
    value: Any
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The settings and allow entries of one target, and the position of the target."""

    origin: Origin
    settings: tuple[TargetSetting, ...] = ()
    allow: tuple[AllowedSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place for the tables of a project. ``warehouse`` is an absolute path or a bucket URI.

    Without an environment, values that read one contain the placeholder ``${NAME}``. ``signing_keys`` are
    references to the keys of applied records, the current one first. Without ``prices``, plans show no costs.
    With ``tests_after_run``, `run` executes the tests of tables. Without ``metrics``, commands emit none,
    and without ``lineage``, they send no events. ``catalogs`` has the options of each catalog by its name,
    with ``type``. Without ``operations``, services run whenever `run` does.
    """

    name: str
    warehouse: str
    spark: SparkLaunchSettings
    storage: Mapping[str, Any]
    budget: Budget
    protect: tuple[str, ...]
    declared: TargetSettings
    signing_keys: tuple[str, ...] = ()
    prices: Prices | None = None
    tests_after_run: bool = False
    metrics: MetricsSettings | None = None
    lineage: LineageSettings | None = None
    catalogs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    operations: Operations | None = None

    @property
    def services_bytes(self) -> int:
        """The bytes that table services may rewrite in one run over all tables."""
        declared = None if self.operations is None else self.operations.rewrite_bytes
        return self.budget.services_bytes if declared is None else declared

    def protects(self, table: str) -> bool:
        """Return whether the target refuses every breaking change of the table."""
        return any(fnmatchcase(table, pattern) for pattern in self.protect)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowEntry:
    """An accepted diagnostic or change; for code SC801, ``guardrail`` names the guardrail that denies it."""

    code: str
    table: str
    reason: str
    origin: Origin
    guardrail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTable:
    """A table after all layers, with the origin of each value.

    ``spec`` is the part that `apply` records in the table: without the layers, and without the locations of
    the table and its files. ``tags`` are in the order of the layers; the spec's tags are sorted. ``location``
    is an absolute path or a bucket URI. ``location_declared`` is relative to the project's root if it is
    inside, so that it is equal in every checkout. ``moved_from`` is the table's name before a rename.
    ``readers`` are the names of the readers that the table is declared for.
    """

    spec: TableSpec
    file: str
    location: str
    location_declared: str
    moved_from: str | None
    policy: str | None
    tags: tuple[str, ...]
    readers: tuple[str, ...]
    settings: Mapping[str, Any] = field(repr=False)
    origins: Mapping[str, Origin] = field(repr=False)
    history: Callable[[], History] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the table, which is unique in the project."""
        return self.spec.name

    def origin(self, path: str) -> Origin:
        """Return the origin of the value at a dotted path, such as ``sizing.max_file_size``.

        Entries of lists are addressed by name (``columns.departed_at.type``), or by index if they have no
        name. For a path that was not written, the nearest written parent counts; without one, the origin is
        built in.
        """
        while path not in self.origins and "." in path:
            path = path.rpartition(".")[0]
        return self.origins.get(path, BUILT_IN)

    def declared(self, path: str) -> Any:
        """Return the value at a dotted path as written, such as ``120MiB``, or None."""
        return self.settings.get(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProject:
    """A valid project at one target; tables are sorted by name.

    ``settings`` has the settings of each target by name. ``other_warehouses`` are those of the targets that
    were not chosen: absolute, or None if they depend on environment variables that are not set here.
    ``environment`` has the names of the variables that the project declares public.
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
