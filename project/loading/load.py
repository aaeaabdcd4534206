"""Loading of a project folder: each file is read, resolved and checked in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from parquetry.message import Message
from parquetry.project.diagnostics.model import (
    Diagnostic,
    Severity,
    diagnostic,
    did_you_mean,
    errors,
    in_order,
    one_of,
)
from parquetry.project.guardrails.model import Guardrail
from parquetry.project.loading.check_columns import check_columns
from parquetry.project.loading.check_settings import check_settings
from parquetry.project.loading.check_sources import check_sources
from parquetry.project.loading.check_tests import check_relationships, check_tests
from parquetry.project.loading.guardrail_files import load_guardrails
from parquetry.project.loading.project_file import ProjectFile, allow_entries, build_target, load_project_file
from parquetry.project.loading.resolve import Resolution, ResolutionContext, resolve
from parquetry.project.model.locations import absolute, contains
from parquetry.project.model.resolved import AllowEntry, ResolvedProject, ResolvedTable
from parquetry.project.readers.effects import READERS_PATH
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.interpolate import DeclaredVariables, TemplateScope, TemplateSite
from parquetry.project.validation.spec_file import SpecFile, spec_file
from parquetry.project.validation.template_syntax import is_template
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.document import parse
from parquetry.project.yaml.folder import (
    PROJECT_FILE,
    FilesInMemory,
    FilesOnDisk,
    RecordingFiles,
    read_project_file,
    scan,
)
from parquetry.runtime.spec.reader_options import AVRO_READER, avro_package

_LITERAL = frozenset({"apiVersion", "kind", "name"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of loading; ``project`` is None exactly if a diagnostic is an error.

    ``diagnostics`` are sorted by file and position; ``files`` is the number of files read. ``tables`` are
    those that could be resolved (all of them without an error), and ``unresolved`` the files of the others;
    beside errors, ``tables`` serves only to select. ``targets`` are the names that parquetry.yml declares.
    ``contents`` has the content of each file read, by path.
    """

    project: ResolvedProject | None
    diagnostics: tuple[Diagnostic, ...]
    files: int
    tables: tuple[ResolvedTable, ...] = ()
    unresolved: tuple[str, ...]
    targets: tuple[str, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def lacks(self, target: str) -> bool:
        """Return whether targets are declared and this one is not among them."""
        return bool(self.targets) and target not in self.targets


def load(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    variables: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    declared: DeclaredVariables | None = None,
    files: Mapping[str, bytes] | None = None,
) -> LoadResult:
    """Load the project in a folder (or of a ``parquetry.yml``) at a target, with all diagnostics.

    Errors in the files become diagnostics, never exceptions.

    Args:
        path: the folder, or its parquetry.yml.
        target: the target's name; None chooses the default one.
        variables: values that replace declared ones; a text is converted to the type of the declared value.
        environment: the environment variables. If it is None, none is read: ``env_var`` returns its default
            or the placeholder ``${NAME}``, and the tables of all targets are checked.
        declared: the names that may be read, in place of those of the project's own `environment`.
        files: contents by path; then nothing is read from the folder, at which relative locations start.

    Raises:
        UndeclaredVariableError: if ``variables`` has a name that the project does not declare.

    """
    given = Path(path)
    root = Path(os.path.realpath(given.parent if given.name == PROJECT_FILE else given))
    known_files = RecordingFiles(FilesOnDisk(root) if files is None else FilesInMemory(files))
    folder = scan(known_files)
    fetch = known_files.read
    found: list[Diagnostic] = list(folder.diagnostics)
    data = read_project_file(known_files)
    if isinstance(data, Diagnostic):
        return LoadResult(
            project=None,
            diagnostics=in_order([*found, data]),
            files=len(folder.tables) + len(folder.policies) + len(folder.guardrails),
            unresolved=folder.tables,
        )
    project_file = load_project_file(
        parse(PROJECT_FILE, data),
        target=target,
        variables=variables or {},
        environment=environment,
        declared=declared,
    )
    found += project_file.found
    policies = _policies(folder.policies, fetch, project_file.scope(), found)
    tables = [
        file
        for name in folder.tables
        if (file := _file(name, Kind.TABLE, fetch, project_file.scope(), found))
    ]
    context = ResolutionContext(
        root=root,
        project=project_file.file,
        policies=policies,
        target=project_file.target or "",
        targets=project_file.targets,
        warehouse=project_file.warehouse,
        read=fetch,
    )

    def at_target(other: str) -> tuple[list[SpecFile], ResolutionContext]:
        if errors(project_file.found):
            return tables, replace(context, target=other)
        there = load_project_file(
            parse(PROJECT_FILE, data),
            target=other,
            variables=variables or {},
            environment=None,
            declared=declared,
        )
        again = partial(_at_target, fetch=fetch, scope=there.scope())
        by_name = {name: policy and again(policy, Kind.POLICY) for name, policy in policies.items()}
        files = [file for table in tables if (file := again(table, Kind.TABLE))]
        return files, replace(
            context, project=there.file, policies=by_name, target=other, warehouse=there.warehouse
        )

    others = at_target if environment is None else None
    resolutions = _resolved_at_targets(tables, context, project_file, at_target=others, found=found)
    _check_locations(resolutions, found)
    if project_file.file:
        _check_readers(
            project_file.file,
            [project_file.target] if environment is not None else project_file.targets,
            resolutions,
            found,
        )
    guardrails = load_guardrails(folder.guardrails, known_files, found)
    allow = allow_entries(project_file.file) if project_file.file else ()
    if project_file.file:
        found = _without_allowed(found, allow, resolutions, project_file.file)
        _check_protected(project_file.file, resolutions, found)
        _check_priorities(project_file, resolutions, found)
        known_rules = {
            *(rule.name for rule in guardrails),
            *(PurePosixPath(p).stem for p in folder.guardrails),
        }
        _check_overrides(project_file.file, allow, known_rules, found)
    diagnostics = in_order(found)
    project = None if errors(diagnostics) else _project(root, project_file, resolutions, allow, guardrails)
    resolved = tuple(resolution.table for resolution in resolutions)
    known = {table.file for table in resolved}
    return LoadResult(
        project=project,
        diagnostics=diagnostics,
        files=1 + len(folder.tables) + len(folder.policies) + len(folder.guardrails),
        tables=resolved,
        unresolved=tuple(name for name in folder.tables if name not in known),
        targets=project_file.targets,
        contents=known_files.contents,
    )


def _file(
    path: str, kind: Kind, fetch: Any, scope: TemplateScope, found: list[Diagnostic]
) -> SpecFile | None:
    """Return a table's or policy's file after templates and schema, or None if it has no YAML root."""
    data = fetch(path)
    if isinstance(data, Diagnostic):
        found.append(data)
        return None
    document = parse(path, data)

    def reading(at: DocumentPath) -> tuple[TemplateSite, TemplateScope] | None:
        return None if at and at[0] in _LITERAL else (TemplateSite.SPEC, scope)

    file = spec_file(document, kind, reading)
    found.extend(file.diagnostics if file else document.diagnostics)
    if file:
        _check_file_name(file, found)
    return file


def _at_target(file: SpecFile, kind: Kind, *, fetch: Any, scope: TemplateScope) -> SpecFile | None:
    """Return the file with its templates evaluated for another target, without its diagnostics."""
    return _file(file.source.path, kind, fetch, scope, []) if is_template(file.source.text) else file


def _check_file_name(file: SpecFile, found: list[Diagnostic]) -> None:
    """Report a file whose name differs from that of its table or policy."""
    stem = PurePosixPath(file.source.path).stem
    name = file.value.get("name")
    if isinstance(name, str) and name != stem:
        span = file.node.at(("name",)).span
        summary = f"the name is '{name}' and the file's '{stem}'"
        found.append(diagnostic("PQ302", summary, source=file.source, span=span, hint="make them equal"))


def _policies(
    paths: Sequence[str], fetch: Any, scope: TemplateScope, found: list[Diagnostic]
) -> dict[str, SpecFile | None]:
    """Return the policies by name. An unreadable one has the name of its file and the value None."""
    policies: dict[str, SpecFile | None] = {}
    for path in paths:
        file = _file(path, Kind.POLICY, fetch, scope, found)
        name = file.value.get("name") if file else None
        if file is None or not isinstance(name, str):
            policies.setdefault(PurePosixPath(path).stem, None)
            continue
        earlier = policies.get(name)
        if earlier is not None:
            _report_duplicate("policy", name, file, earlier, found)
        policies[name] = file
    return policies


def _resolved(
    files: Iterable[SpecFile], context: ResolutionContext, found: list[Diagnostic]
) -> list[Resolution]:
    """Resolve and check tables one by one, and return them by name.

    If several tables have one name (in any case), a diagnostic is added and only the first one is returned.
    """
    resolutions: dict[str, Resolution] = {}
    for file in files:
        resolution = resolve(file, context)
        if resolution is None:
            continue
        check_columns(resolution)
        check_settings(resolution)
        check_sources(resolution)
        check_tests(resolution)
        found += resolution.found
        name = resolution.table.name
        earlier = resolutions.setdefault(name.lower(), resolution)
        if earlier is not resolution:
            _report_duplicate("table", name, file, earlier.file, found)
    names = {resolution.table.name for resolution in resolutions.values()}
    for resolution in resolutions.values():
        before = len(resolution.found)
        check_relationships(resolution, names)
        found += resolution.found[before:]
    return sorted(resolutions.values(), key=lambda resolution: resolution.table.name)


def _resolved_at_targets(
    files: Sequence[SpecFile],
    context: ResolutionContext,
    project_file: ProjectFile,
    *,
    at_target: Callable[[str], tuple[Sequence[SpecFile], ResolutionContext]] | None,
    found: list[Diagnostic],
) -> list[Resolution]:
    """Return the tables at the chosen target, and add their diagnostics to ``found``.

    ``at_target`` returns the files and surroundings at another target. If it is given, diagnostics of targets
    that change tables are added too. The summary of a diagnostic that only they cause names them.
    """
    by_target: dict[str, list[Diagnostic]] = {context.target: []}
    resolutions = _resolved(files, context, by_target[context.target])
    for other in project_file.targets if at_target else ():
        if at_target and other != context.target and _changes_tables(project_file.file, other):
            _resolved(*at_target(other), by_target.setdefault(other, []))
    plain = list(by_target[context.target])
    if any(by_target.values()) and context.target and _changes_tables(project_file.file, context.target):
        plain.clear()
        _resolved(files, replace(context, target=""), plain)
    without, at = set(plain), {name: set(entries) for name, entries in by_target.items()}
    for entry in (entry for entries in by_target.values() for entry in entries):
        if entry in without:
            found.append(entry)
            continue
        names = [name for name, entries in at.items() if entry in entries]
        summary = Message(
            "at {targets}: {summary}",
            targets=_counted("target", names),
            summary=entry.summary,
        )
        found.append(replace(entry, summary=summary))
    return resolutions


def _report_duplicate(
    noun: str, name: str, file: SpecFile, earlier: SpecFile, found: list[Diagnostic]
) -> None:
    """Report a file that declares a name which an earlier file has."""
    span = file.node.at(("name",)).span
    other = earlier.value["name"]
    named = "" if other == name else f"as '{other}' "
    summary = f"{noun} '{name}' is declared twice, also {named}in {earlier.source.path}"
    found.append(diagnostic("PQ301", summary, source=file.source, span=span, hint="rename one of them"))


def _changes_tables(file: SpecFile | None, target: str) -> bool:
    """Return whether a project file has overrides or readers for a target."""
    if file is None:
        return False
    declared = file.node.at(("targets", target))
    changing = (declared.children.get(key) for key in ("overrides", READERS_PATH))
    return any(node is not None and node.value for node in changing)


def _check_locations(resolutions: Sequence[Resolution], found: list[Diagnostic]) -> None:
    """Report tables that share a folder or are inside another table's folder."""
    ordered = sorted(resolutions, key=lambda resolution: resolution.table.location.rstrip("/") + "/")
    outer: Resolution | None = None
    for resolution in ordered:
        if outer is not None and contains(outer.table.location, resolution.table.location):
            first, second = sorted((outer, resolution), key=lambda one: one.table.file)
            same = outer.table.location == resolution.table.location
            where = f"has the location of table '{first.table.name}'"
            if not same:
                nested = second is resolution
                where = (
                    f"is inside table '{first.table.name}'"
                    if nested
                    else f"contains table '{first.table.name}'"
                )
            path = "location" if "location" in second.layered.value else "name"
            second.found.clear()
            summary = f"table '{second.table.name}' {where} ({resolution.table.location_declared})"
            second.report("PQ303", summary, path, "give one of them another location")
            found += second.found
        else:
            outer = resolution


def _check_readers(
    project: SpecFile,
    targets: Sequence[str | None],
    resolutions: Sequence[Resolution],
    found: list[Diagnostic],
) -> None:
    """Report sources of Avro files at targets that name no package for reading Avro."""
    declared = project.value.get("targets", {})
    lacking = [name for name in targets if name and AVRO_READER not in str(declared.get(name))]
    for resolution in resolutions if lacking else ():
        before = len(resolution.found)
        for source in resolution.table.spec.sources:
            if source.format == "avro":
                summary = (
                    f"no package of {_counted('target', lacking)} reads the Avro of source '{source.name}'"
                )
                hint = f"list {avro_package()} under spark.packages of the target"
                resolution.report("PQ711", summary, f"sources.{source.name}.format", hint)
        found += resolution.found[before:]


def _without_allowed(
    found: list[Diagnostic], allow: Sequence[AllowEntry], resolutions: Sequence[Resolution], project: SpecFile
) -> list[Diagnostic]:
    """Return the diagnostics without the allowed warnings, and with diagnostics for unused allow entries.

    A warning in a policy, in defaults or in overrides is dropped if each table in which it was found allows
    it.
    """
    tables = [resolution.table.name for resolution in resolutions]
    by_file = {resolution.table.file: resolution.table.name for resolution in resolutions}
    concerned: dict[Diagnostic, set[str]] = {}
    for entry in found:
        named = entry.table or by_file.get(entry.file)
        concerned.setdefault(entry, set()).update([named] if named else [])
    used: set[int] = set()
    kept = []
    for entry, names in concerned.items():
        matching = {
            index
            for index, allowed in enumerate(allow)
            if allowed.code == entry.code and allowed.table in names and entry.severity is Severity.WARNING
        }
        used |= matching
        lacking = sorted(names - {allow[index].table for index in matching})
        if matching and lacking:
            kept.append(replace(entry, hint=f"accept it for {_listed(lacking)} too"))
        elif not matching:
            kept.append(entry if entry.file in by_file else _of_tables(entry, sorted(names)))
    for index, allowed in enumerate(allow):
        place = project.node.at(("allow", index))
        if allowed.table not in tables:
            kept.append(_unmatched(project, ("allow", index, "table"), allowed.table, tables))
        elif allowed.code.startswith("PQ") and index not in used:
            summary = f"{allowed.code} does not occur in table '{allowed.table}', or is an error"
            kept.append(
                diagnostic("PQ309", summary, source=project.source, span=place.span, hint="remove the entry")
            )
    return kept


def _of_tables(found: Diagnostic, names: Sequence[str]) -> Diagnostic:
    """Return a diagnostic of a shared file with the names of the tables it is about in its summary."""
    if not names:
        return found
    summary = Message("in {tables}: {summary}", tables=_counted("table", names), summary=found.summary)
    return replace(found, summary=summary)


def _counted(noun: str, names: Sequence[str]) -> str:
    """Return a noun with a list of names, such as ``targets 'dev', 'prod'``."""
    return f"{noun}{'' if len(names) == 1 else 's'} {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    """Return names in quotes, cut after the first three."""
    most = 3
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(f"'{name}'" for name in names[:most]) + more


def _check_protected(project: SpecFile, resolutions: Sequence[Resolution], found: list[Diagnostic]) -> None:
    """Report patterns under ``protect`` that match no table."""
    names = [resolution.table.name for resolution in resolutions]
    targets = project.value.get("targets")
    for target, value in targets.items() if isinstance(targets, dict) else ():
        patterns = value.get("protect", ()) if isinstance(value, dict) else ()
        for index, pattern in enumerate(patterns):
            if not any(fnmatchcase(name, pattern) for name in names):
                found.append(_unmatched(project, ("targets", target, "protect", index), pattern, names))


def _check_priorities(
    project: ProjectFile, resolutions: Sequence[Resolution], found: list[Diagnostic]
) -> None:
    """Report priorities of the target for tags that no table has there."""
    assert project.file is not None, "a project without its file has no priorities"
    tags = {tag for resolution in resolutions for tag in resolution.table.tags}
    path = ("targets", project.target or "", "operations", "priorities")
    priorities = project.file.node.at(path)
    if priorities is not project.file.node.at(path[:-1]):
        unknown = sorted({str(key) for key in priorities.children} - tags)
        found.extend(_unmatched(project.file, (*path, tag), tag, tags) for tag in unknown)


def _check_overrides(
    project: SpecFile, allow: Sequence[AllowEntry], names: Iterable[str], found: list[Diagnostic]
) -> None:
    """Report entries of ``allow`` that lack a guardrail, or name one that does not exist."""
    for index, entry in enumerate(allow):
        place = project.node.at(("allow", index)).span
        if (entry.code == "SC801") != (entry.guardrail is not None):
            summary = "an entry with code SC801, and no other, names a guardrail"
            hint = "write {code: SC801, guardrail: NAME, table: TABLE, reason: ...}"
            found.append(diagnostic("PQ101", summary, source=project.source, span=place, hint=hint))
        elif entry.guardrail is not None and entry.guardrail not in names:
            summary = f"there is no guardrail '{entry.guardrail}'"
            hint = one_of("guardrail", entry.guardrail, names)
            found.append(diagnostic("PQ312", summary, source=project.source, span=place, hint=hint))


def _unmatched(project: SpecFile, path: DocumentPath, pattern: str, names: Iterable[str]) -> Diagnostic:
    """Return the diagnostic of a pattern that matches no table."""
    return diagnostic(
        "PQ308",
        f"'{pattern}' matches no table",
        source=project.source,
        span=project.node.at(path).span,
        hint=did_you_mean(pattern, names),
    )


def _project(
    root: Path,
    project_file: ProjectFile,
    resolutions: Sequence[Resolution],
    allow: tuple[AllowEntry, ...],
    guardrails: tuple[Guardrail, ...],
) -> ResolvedProject:
    """Return the resolved project from its parts."""
    assert project_file.file is not None, "a project without its file has an error"
    assert project_file.target is not None, "a valid project has a target"
    return ResolvedProject(
        root=root,
        name=project_file.file.value["name"],
        description=project_file.file.value.get("description"),
        targets=project_file.targets,
        target=build_target(project_file, project_file.file, project_file.target, root=root),
        tables=tuple(resolution.table for resolution in resolutions),
        allow=allow,
        guardrails=guardrails,
        environment=project_file.environment,
        default_target=project_file.file.value.get("default_target"),
        settings=project_file.settings,
        other_warehouses=tuple(
            None if warehouse is None else absolute(root, warehouse)
            for warehouse in project_file.other_warehouses
        ),
    )
