"""Resolution of a table's layers into one table, with the information that checks need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from parquetry.message import Text
from parquetry.project.diagnostics.model import Diagnostic, diagnostic, did_you_mean, one_of
from parquetry.project.diagnostics.source import Span
from parquetry.project.model import settings
from parquetry.project.model.columns import declared_columns
from parquetry.project.model.layers import Layered, LayerValues, entry_name, history, leaves, merge
from parquetry.project.model.locations import LocationProblem, absolute, is_in_bucket, is_relative, joined
from parquetry.project.model.resolved import Layer, ResolvedTable
from parquetry.project.model.table_tests import table_test
from parquetry.project.readers.effects import READERS_PATH
from parquetry.project.validation.spec_file import SpecFile
from parquetry.project.validation.template_syntax import is_template
from parquetry.project.yaml.document import Node
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.runtime.spec.table_spec import Extra, KeyScope, Locks, Source, TableSpec
from parquetry.runtime.spec.types import ColumnType

_SECTIONS = ("sizing", "clustering", "retention", "files")
_VERSION = "table_version"
_LOCKS = "locks"
_PUBLISH = "publish"
_FROM_POLICY = (*_SECTIONS, _VERSION, _LOCKS, _PUBLISH, "catalog", "database")
_FROM_TARGET = (_VERSION, _LOCKS, "catalog", "database", READERS_PATH)
_FROM_DEFAULTS = (*_FROM_POLICY, "owner", "tags", "key_scope", "partitioning")
_FROM_OVERRIDES = ("sizing", "clustering", "retention", "tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionContext:
    """The context in which tables are resolved: the other files of the project, and the target.

    ``project`` is None if its file could not be read. ``warehouse`` is normalised and may be relative to
    ``root``. ``read`` returns the bytes of a file, or a diagnostic.
    """

    root: Path
    project: SpecFile | None
    policies: Mapping[str, SpecFile | None]
    target: str
    targets: tuple[str, ...] = ()
    warehouse: str
    read: Callable[[str], bytes | Diagnostic]


@dataclass(slots=True, kw_only=True)
class Resolution:
    """A resolved table with its columns' types, its merged layers and the diagnostics so far.

    ``types`` has an entry for each column that was understood. If one was not, ``columns_known`` is False,
    and an unknown column name proves nothing. ``incomplete`` has the paths of parts that were left out.
    ``catalogs`` are those of the target by name, None if they are not known.
    """

    table: ResolvedTable
    file: SpecFile
    layered: Layered
    incomplete: frozenset[DocumentPath]
    types: Mapping[str, ColumnType]
    columns_known: bool
    catalogs: Mapping[str, Any] | None
    found: list[Diagnostic]

    def report(
        self,
        code: str,
        summary: Text,
        path: str,
        hint: Text | None = None,
        *,
        at_key: bool = False,
        shows_lines: bool = True,
    ) -> None:
        """Add a diagnostic at the position from which the value at ``path`` comes.

        Args:
            code: the diagnostic code.
            summary: what is wrong.
            path: the dotted path of a setting.
            hint: what to do.
            at_key: True to point at the key instead of the value.
            shows_lines: False if the line may contain a secret.

        """
        place = self.layered.place(path)
        span = (place.key if at_key else place.value) if place else self.file.node.span
        source = place.source if place else self.file.source
        if place is None:
            span = Span(span.start, span.start)
        self.found.append(
            diagnostic(
                code,
                summary,
                source=source,
                span=span,
                hint=hint,
                shows_lines=shows_lines,
                table=self.table.name,
            )
        )

    def report_at(self, code: str, summary: Text, node: Node, hint: Text | None) -> None:
        """Add a diagnostic at a node of the table's own file."""
        self.found.append(diagnostic(code, summary, source=self.file.source, span=node.span, hint=hint))

    def intact(self, *paths: str) -> bool:
        """Return whether nothing at, above or below these paths was left out because of an error."""
        wanted = [tuple(path.split(".")) for path in paths]
        for path in self.incomplete:
            dotted = tuple(str(step) for step in path)
            for other in wanted:
                shared = min(len(dotted), len(other))
                if dotted[:shared] == other[:shared]:
                    return False
        return True

    def was_declared(self, path: str) -> bool:
        """Return whether a layer of the project sets exactly this path."""
        return path in self.layered.places

    def declares_below(self, path: str) -> bool:
        """Return whether a layer of the project sets this path, or one below it."""
        return any(place == path or place.startswith(f"{path}.") for place in self.layered.places)


def test_entries(resolution: Resolution) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and value of each entry of ``tests``."""
    for index, entry in enumerate(resolution.layered.value.get("tests", ())):
        yield f"tests.{entry_name(entry, index)}", entry


def resolve(file: SpecFile, context: ResolutionContext) -> Resolution | None:
    """Return the table that a file declares, at the target of ``context``; None if it has no name."""
    name = file.value.get("name")
    if not isinstance(name, str):
        return None
    found: list[Diagnostic] = []
    parts, incomplete = _parts(file, context, found)
    layered = merge(parts)
    value = layered.value
    columns, types, known = declared_columns(file, context.read, found)
    location, location_problem = _location(value, context, name)
    sizing, files = settings.sizing(value["sizing"]), settings.files(value["files"])
    declared = dict(leaves(value))
    sources, source_problems = _sources(value)
    tags = tuple(value.get("tags", ()))
    catalogs = _catalogs(context)
    spec = TableSpec(
        name=name,
        columns=columns,
        record_key=tuple(value.get("record_key", ())),
        key_scope=KeyScope(value["key_scope"]),
        ordering=value.get("ordering"),
        partition_by=tuple(value.get("partition_by", ())),
        hive_style=value["partitioning"]["hive_style"],
        url_encode=value["partitioning"]["url_encode"],
        sizing=sizing,
        files=files,
        retention=settings.retention(value["retention"]),
        sources=sources,
        extra=Extra(
            description=value.get("description"),
            owner=value.get("owner"),
            tags=tuple(sorted(tags)),
            catalog=value.get("catalog"),
            database=value.get("database"),
            clustering=settings.clustering(value["clustering"], sizing=sizing, files=files),
            queries=tuple(settings.query(entry) for entry in value.get("queries", ())),
            tests=tuple(test for entry in value.get("tests", ()) if (test := table_test(entry))),
        ),
        table_version=value[_VERSION],
        # Hudi, too, has no storage-based lock on a local path.
        locks=Locks(value[_LOCKS]) if is_in_bucket(location) else Locks.FILE,
        publish=settings.publish(value.get(_PUBLISH, {}), catalogs or {}),
    )
    table = ResolvedTable(
        spec=spec,
        file=file.source.path,
        location=absolute(context.root, location),
        location_declared=location,
        moved_from=value.get("moved", {}).get("from"),
        policy=value.get("policy"),
        tags=tags,
        readers=tuple(value.get(READERS_PATH, ())),
        settings=declared,
        origins=layered.origins(declared),
        history=partial(history, parts),
    )
    resolution = Resolution(
        table=table,
        file=file,
        layered=layered,
        incomplete=incomplete,
        types=types,
        columns_known=known,
        catalogs=catalogs,
        found=found,
    )
    if location_problem:
        path = "location" if "location" in value else "name"
        resolution.report(location_problem.code, location_problem.summary, path, location_problem.hint)
    elif len(context.targets) > 1 and (shared := _shared_location(file, context.target)) is not None:
        summary = f"'{shared}' is the same folder at more than one target"
        # The hint names no target, so that `validate`, which resolves tables at each target, reports it once.
        hint = f"name it by target: `location: {{TARGET: {shared}}}`"
        resolution.report("PQ310", summary, "location", hint)
    for path, problem in source_problems:
        resolution.report(problem.code, problem.summary, path, problem.hint)
    return resolution


def _parts(
    file: SpecFile, context: ResolutionContext, found: list[Diagnostic]
) -> tuple[list[LayerValues], frozenset[DocumentPath]]:
    """Return the layers of a table, the weakest first, and the paths of their missing parts."""
    parts = [LayerValues(layer=Layer.BUILT_IN, value=settings.built_in_settings())]
    incomplete = set(file.incomplete)
    sections: set[DocumentPath] = {(section,) for section in _FROM_POLICY}
    project = context.project
    if project is None:
        incomplete |= sections
    else:
        parts.append(section(Layer.DEFAULTS, project, ("defaults",), _FROM_DEFAULTS))
        incomplete |= _below(project.incomplete, ("defaults",))
        parts.append(section(Layer.TARGET, project, ("targets", context.target), _FROM_TARGET))
    policy = file.value.get("policy")
    if policy is not None and policy not in context.policies:
        incomplete |= sections
        span = file.node.at(("policy",)).span
        hint = did_you_mean(policy, context.policies) or f"add policies/{policy}.yml"
        found.append(
            diagnostic("PQ304", f"there is no policy '{policy}'", source=file.source, span=span, hint=hint)
        )
    elif policy is not None:
        named = context.policies[policy]
        if named is None:
            incomplete |= sections
        else:
            parts.append(section(Layer.POLICY, named, (), _FROM_POLICY))
            incomplete |= named.incomplete
    parts.append(_table_layer(file, context.target))
    if context.targets:
        found += _unknown_targets(file, context.targets)
    if project is not None:
        at = ("targets", context.target, "overrides")
        parts.append(section(Layer.OVERRIDES, project, at, _FROM_OVERRIDES))
        incomplete |= _below(project.incomplete, at)
    return parts, frozenset(incomplete)


def _catalogs(context: ResolutionContext) -> Mapping[str, Any] | None:
    """Return the catalogs of the target by name, or None if the target is not known."""
    if context.project is None or not context.target:
        return None
    targets = context.project.value.get("targets")
    target = targets.get(context.target) if isinstance(targets, dict) else None
    return target.get("catalogs", {}) if isinstance(target, dict) else None


def _table_layer(file: SpecFile, target: str) -> LayerValues:
    """Return the layer of the table's own file; of locations by target, it has only that of the target."""
    value, node = file.value, file.node
    located = value.get("location")
    if isinstance(located, dict):
        value, keys, children = dict(value), dict(node.keys), dict(node.children)
        del value["location"], keys["location"]
        places = children.pop("location")
        if target in located:
            value["location"] = located[target]
            keys["location"], children["location"] = places.keys[target], places.children[target]
        node = replace(node, keys=keys, children=children)
    return LayerValues(layer=Layer.TABLE, value=value, source=file.source, node=node)


def _shared_location(file: SpecFile, target: str) -> str | None:
    """Return the absolute location that the table has at this target and at others too, or None.

    A location with a template may differ by target, which `plan` checks.
    """
    located = file.value.get("location")
    if isinstance(located, dict):
        here = located.get(target)
        return here if here is not None and list(located.values()).count(here) > 1 else None
    if not isinstance(located, str) or is_relative(located):
        return None
    line, column = file.node.at(("location",)).span.start
    return None if is_template(file.source.lines[line - 1][column - 1 :]) else located


def _unknown_targets(file: SpecFile, targets: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each unknown target in the table's locations."""
    located = file.value.get("location")
    for name in located if isinstance(located, dict) else ():
        if name not in targets:
            yield diagnostic(
                "PQ305",
                f"there is no target '{name}'",
                source=file.source,
                span=file.node.key_span(("location", name)),
                hint=one_of("target", name, targets),
            )


def section(layer: Layer, file: SpecFile, at: DocumentPath, keys: Iterable[str]) -> LayerValues:
    """Return a layer from the mapping at a path of a file, restricted to ``keys``."""
    node = file.node
    for step in at:
        below = node.children.get(step)
        if below is None:
            return LayerValues(layer=layer, value={})
        node = below
    value = node.value if isinstance(node.value, dict) else {}
    kept = {key: value[key] for key in keys if key in value}
    return LayerValues(layer=layer, value=kept, source=file.source, node=node)


def _below(paths: Iterable[DocumentPath], at: DocumentPath) -> set[DocumentPath]:
    """Return the paths at or below a path, relative to it."""
    return {path[len(at) :] for path in paths if path[: len(at)] == at[: len(path)]}


def _location(
    value: Mapping[str, Any], context: ResolutionContext, name: str
) -> tuple[str, LocationProblem | None]:
    """Return a table's location; if it is not valid, the default location and the problem."""
    fallback = f"{context.warehouse.rstrip('/')}/{name}"
    try:
        return joined(context.warehouse, value.get("location", name)), None
    except LocationProblem as problem:
        return fallback, problem


def _sources(value: Mapping[str, Any]) -> tuple[tuple[Source, ...], list[tuple[str, LocationProblem]]]:
    """Return the sources of a table, and the problems with their paths."""
    sources, problems = [], []
    for index, entry in enumerate(value.get("sources", ())):
        path = entry["path"]
        try:
            path = joined("", path)
        except LocationProblem as problem:
            problems.append((f"sources.{entry_name(entry, index)}.path", problem))
        sources.append(settings.source(entry, path=path, has_key="record_key" in value))
    return tuple(sources), problems
