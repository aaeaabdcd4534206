"""The command `learn`: queries of tables from the logs of engines, as a change of the tables' files."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from parquetry.compiler.learning.conditions import columns_in, has_term, shape_of_text
from parquetry.compiler.learning.log_files import LONGEST_LINE_BYTES, LineCounts, Log, lines_of, logs_at
from parquetry.compiler.learning.spark_filters import (
    Filter,
    Unread,
    filters_of,
    types_of_schema,
)
from parquetry.compiler.learning.spark_log import EventCounts, RecordedScan, scans_of
from parquetry.compiler.learning.sql_filters import Naming, ReadTable, tables_read
from parquetry.compiler.learning.sql_history import (
    LARGEST_DOCUMENT_BYTES,
    MOST_DOCUMENT_VALUES,
    LogKind,
    Statement,
    StatementCounts,
    statements_of,
)
from parquetry.compiler.learning.workload import (
    Asked,
    LeftOut,
    Selectivity,
    SpecColumns,
    Workload,
)
from parquetry.compiler.security.masking import masked_sql
from parquetry.compiler.spec_files.edit import NotEditableError, with_document, with_values
from parquetry.compiler.spec_words import flow
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError, UsageError
from parquetry.message import Text
from parquetry.project import ResolvedTable
from parquetry.project.diagnostics.model import one_of
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.model.locations import LocationProblem, normalised
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.document import parse_text
from parquetry.runtime.layout.skipping.files import Types, column_types
from parquetry.runtime.layout.skipping.parser import parse_condition
from parquetry.runtime.spec.masking import personal_column_names, pii_columns
from parquetry.text.printable import one_line

_REMEDIES: Final = {
    LogKind.SPARK: "give files of spark.eventLog.dir, not logs of a driver",
    LogKind.TRINO: "give the JSON of an event listener",
    LogKind.ATHENA: "give the answers of `aws athena batch-get-query-execution`",
    LogKind.DBT: "give target/manifest.json after `dbt compile`",
}
_FULL_NAME: Final = re.compile(r"[^/:.]+(?:\.[^/:.]+){1,2}")
_MOST_OTHERS: Final = 1_000
_DAY_MS: Final = 86_400_000
_HUDI: Final = ".hoodie"
_PARTITION: Final = re.compile(r"/[^/=]+=[^/]*(?:/.*)?\Z")
_WITH_PASSWORD: Final = re.compile(r"(?<=//)[^/@:]*:[^/@]*@")
_LONGEST_PATH: Final = 1_000
_LONGEST_NAME: Final = 60


class QueryChange(StrEnum):
    """The proposed change of a query: it is new, it has another weight, or it stays as it is."""

    NEW = "new"
    WEIGHT = "weight"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedQuery:
    """A query of a table with what the logs say about it.

    Attributes:
        name: The name in the spec.
        change: The proposed change.
        where: The condition; the values of personal columns in a declared one are masked.
        shape: The condition with `?` for values.
        weight: The proposed weight: the share of the scans with a condition, in percent.
        runs_per_day: The runs in a day; None if the logs are of less than a day.
        runs: The number of scans.
        read_bytes: The size of the files that they opened.
        selectivity: The share of rows that passed; None if the logs do not have it.
        masked: Personal columns that scans filtered by, too; these parts are not in the condition.

    """

    name: str
    change: QueryChange
    where: str
    shape: str
    weight: float
    runs_per_day: float | None
    runs: int
    read_bytes: int
    selectivity: Selectivity | None
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnproposedShape:
    """A shape of conditions that is not proposed, with the reason; it is empty if there are too many."""

    shape: str
    reason: LeftOut
    runs: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTable:
    """The queries of one table.

    Attributes:
        table: The name of the table.
        file: The file that declares it.
        scans: The scans of it.
        read_bytes: The size of the files that they opened, as far as known.
        unsized_scans: The scans of unknown size.
        covered_bytes: The bytes of the scans that the queries describe.
        unconditional_scans: The scans without a condition that is understood and selects rows.
        unconditional_bytes: The bytes of these.
        queries: The queries, those that read most first.
        unproposed: The shapes that are not proposed.
        not_seen: The declared queries that no scan asked.
        diff: The lines of the change of the file as a unified diff; none if nothing changes.
        problem: The reason why the file cannot be changed, or None if it can.

    """

    table: str
    file: str
    scans: int
    read_bytes: int
    unsized_scans: int
    covered_bytes: int
    unconditional_scans: int
    unconditional_bytes: int
    queries: tuple[LearnedQuery, ...]
    unproposed: tuple[UnproposedShape, ...]
    not_seen: tuple[str, ...]
    diff: tuple[str, ...]
    problem: Text | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLocation:
    """A location in the logs that no selected table of the project has."""

    location: str
    scans: int
    read_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUnderstood:
    """The number of filters that are no conditions for one reason."""

    reason: Unread
    filters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The result of learning from logs.

    Attributes:
        logs: The number of logs.
        without_events: The logs that have no event, such as files of another kind.
        broken_off: The files that end in the middle of their content.
        events: The number of events.
        events_not_understood: The lines and events that are not understood.
        queries: The number of queries.
        scans: The number of scans of files.
        filters: The number of filters of these.
        conditions: The filters that are conditions.
        at_runtime: The filters by values that another part of the query found, such as dynamic pruning.
        not_understood: The other filters by reason.
        tables: The tables of the project that were scanned, those that read most first.
        others: Other locations, those that read most first.
        failed: The statements that failed; they are not counted elsewhere.
        ambiguous: The tables whose name several catalogs in the logs have; their scans are among the others.
        written: The files that were written.

    """

    logs: int
    without_events: tuple[str, ...]
    broken_off: tuple[str, ...]
    events: int
    events_not_understood: int
    queries: int
    scans: int
    filters: int
    conditions: int
    at_runtime: int
    not_understood: tuple[NotUnderstood, ...]
    tables: tuple[LearnedTable, ...]
    others: tuple[OtherLocation, ...]
    failed: int
    ambiguous: tuple[str, ...]
    written: tuple[str, ...] = ()


def learn(
    workspace: Workspace,
    logs: Sequence[str],
    *,
    places: Mapping[str, str],
    most: int,
    kind: LogKind = LogKind.SPARK,
    write: Callable[[], Workspace] | None = None,
) -> Learned:
    """Learn the queries of the selected tables from logs.

    Args:
        workspace: The project.
        logs: Files and folders of this machine or of a bucket, which the target's storage options open.
        places: Further locations or full names of tables in the logs: the names of tables by these.
        most: The most queries of a table that are proposed.
        kind: The program that wrote the logs.
        write: A function that loads the project again; if it is given, the files are changed.

    Raises:
        UsageError: If no log has an event, or a location names a table that is not in the project.
        SpecError: If the changed project would have errors; then no file is changed.

    """
    for name in places.values():
        if name not in {table.name for table in workspace.tables}:
            raise UsageError(
                "there is no selected table {table!r}; {hint}",
                table=name,
                hint=one_of("table", name, [table.name for table in workspace.tables]),
            )
    collected = _Collected(workspace.tables, places)
    files, counts, without = LineCounts(), EventCounts(), list[str]()
    found = logs_at(logs, workspace.store_at)
    for log in found:
        before = counts.events
        if kind is LogKind.SPARK:
            for scan in scans_of(lines_of(log, files), counts, log=log.name):
                collected.add(scan)
        else:
            _read_statements(log, kind, collected, files, counts)
        if counts.events == before:
            without.append(log.name)
    if not counts.events:
        raise UsageError(
            "{path} has no event of {program}; {remedy}, or name the program with --from",
            path=", ".join(logs),
            program=str(kind),
            remedy=_REMEDIES[kind],
        )
    root = workspace.project.root
    changes = [
        _Change(table, workload, most=most, days=collected.days, root=root)
        for table, workload in collected.asked()
    ]
    learned = Learned(
        logs=len(found),
        without_events=tuple(without),
        broken_off=tuple(files.broken_off),
        events=counts.events,
        events_not_understood=counts.not_understood + files.too_long,
        queries=counts.queries,
        scans=collected.scans,
        filters=collected.filters,
        conditions=collected.filters - collected.unread.total(),
        at_runtime=collected.unread[Unread.RUNTIME],
        not_understood=tuple(
            NotUnderstood(reason=reason, filters=number)
            for reason, number in sorted(collected.unread.items(), key=lambda item: (-item[1], item[0]))
            if reason is not Unread.RUNTIME
        ),
        tables=tuple(change.result() for change in changes),
        others=collected.other_tables(),
        failed=collected.failed,
        ambiguous=tuple(sorted(collected.ambiguous)),
    )
    return learned if write is None else replace(learned, written=_write(root, changes, write))


def _read_statements(
    log: Log, kind: LogKind, collected: _Collected, files: LineCounts, counts: EventCounts
) -> None:
    """Add the tables that the statements of a history read."""
    found = StatementCounts()
    types = collected.types_by_name
    longest_bytes = LARGEST_DOCUMENT_BYTES if kind is LogKind.DBT else LONGEST_LINE_BYTES
    lines = lines_of(log, files, longest_bytes=longest_bytes)
    for statement in statements_of(lines, kind, found, log=log.name):
        counts.queries += 1
        naming = Naming(types=types, context=statement.context)
        reads = tables_read(statement.sql, statement.dialect, naming)
        if reads is None:
            found.not_understood += 1
        for number, read in enumerate(reads or ()):
            collected.add_read(statement, read, number, of=reads or ())
    if kind is LogKind.DBT and (found.too_large or files.too_long):
        raise UsageError(
            "{path} has more than {most_bytes} bytes or {most_values} values, the most that are read of a "
            "manifest; {remedy}",
            path=log.name,
            most_bytes=LARGEST_DOCUMENT_BYTES,
            most_values=MOST_DOCUMENT_VALUES,
            remedy="give it without macros and sources: jq -c '{metadata, nodes}' target/manifest.json",
        )
    collected.failed += found.failed
    counts.events += found.events
    counts.not_understood += found.not_understood


def _write(root: Path, changes: Iterable[_Change], reload: Callable[[], Workspace]) -> tuple[str, ...]:
    """Write the changed files and return their names; if the project then has errors, restore all of them."""
    folder = ConfinedFolder(root)
    written: dict[str, bytes] = {}
    try:
        for change in changes:
            if change.after != change.before:
                written[change.path] = folder.read(change.path)
                folder.write(change.path, change.after)
        if written:
            reload()
    except (ParquetryError, OSError):
        for path, content in written.items():
            folder.write(path, content)
        raise
    return tuple(sorted(written))


class _Collected:
    """The scans of all logs by table."""

    def __init__(self, tables: Sequence[ResolvedTable], places: Mapping[str, str]) -> None:
        self.scans = 0
        self.filters = 0
        self.failed = 0
        self.unread: Counter[Unread] = Counter()
        self._tables = {table.name: table for table in tables}
        self.ambiguous: set[str] = set()
        names: dict[tuple[str, ...], str] = {
            (table.spec.extra.database.lower(), table.name.lower()): table.name
            for table in tables
            if table.spec.extra.database is not None
        }
        names |= {
            tuple(place.lower().split(".")): name
            for place, name in places.items()
            if _FULL_NAME.fullmatch(place)
        }
        # A name with its catalog says which of the tables with the short name is meant.
        self._names = {
            parts: name
            for parts, name in names.items()
            if not any(
                owner == name and len(other) > len(parts) and other[-len(parts) :] == parts
                for other, owner in names.items()
            )
        }
        self._catalogs: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._places = {_place(table.location): table.name for table in tables}
        self._places |= {_place(location): name for location, name in places.items()}
        self._types = {
            table.name: {name.lower(): kind for name, kind in column_types(table.spec.columns).items()}
            for table in tables
        }
        self._workloads: dict[str, Workload] = {}
        self._others: dict[str, tuple[int, int]] = {}
        self._begin: int | None = None
        self._end: int | None = None

    def add(self, scan: RecordedScan) -> None:
        """Add a scan; scans of Hudi's own files are left out."""
        path = None if scan.location is None else _place(scan.location)
        name = None if path is None else self._table_at(path)
        if name is not None and path is not None and f"/{_HUDI}/" in f"{path}/":
            return
        types = {**self._types.get(name or "", {}), **types_of_schema(scan.read_schema)}
        found = filters_of(scan.filters, types, scan.session)
        rows, passed = scan.rows, scan.passed
        share = passed / rows if rows and passed is not None and passed <= rows else None
        asked = Asked(
            query=scan.query,
            conditions=[each for each in found if not isinstance(each, Unread)],
            read_bytes=scan.read_bytes,
            passed=share,
        )
        self._count(name, path, asked, found, scan.started_ms)

    @property
    def types_by_name(self) -> Mapping[tuple[str, ...], Types]:
        """The types of the tables whose full names are known, by these."""
        return {parts: self._types[name] for parts, name in self._names.items()}

    def add_read(
        self, statement: Statement, read: ReadTable, number: int, *, of: Sequence[ReadTable]
    ) -> None:
        """Add a table that a statement reads; its size is known from the engine, or if it is the only one.

        A table that a statement names several times was read as often, each time the same share.
        """
        times = sum(other.name == read.name for other in of)
        whole = statement.sizes.get(read.name)
        if whole is None and times == len(of):
            whole = statement.read_bytes
        found = next(
            (parts for at in range(len(read.name)) if (parts := read.name[at:]) in self._names), None
        )
        asked = Asked(
            query=f"{statement.query}\n{number}",
            conditions=[each for each in read.filters if not isinstance(each, Unread)],
            read_bytes=None if whole is None else whole // times,
            passed=None,
        )
        name = None if found is None else self._table_named(found, read.name)
        self._count(name, ".".join(read.name), asked, read.filters, statement.started_ms)

    def _table_named(self, known: tuple[str, ...], full: tuple[str, ...]) -> str | None:
        """Return the table of a known name, or None if several catalogs in the logs have it."""
        name = self._names[known]
        catalog = full[: -len(known)]
        first = self._catalogs.setdefault(known, catalog) if catalog else catalog
        if first != catalog:
            self.ambiguous.add(name)
            dropped = self._workloads.pop(name, None)
            if dropped is not None:
                self._add_other(".".join((*first, *known)), dropped.read_bytes, scans=dropped.scans)
        return None if name in self.ambiguous else name

    def _count(
        self,
        name: str | None,
        place: str | None,
        asked: Asked,
        filters: Sequence[Filter],
        started_ms: int | None,
    ) -> None:
        """Count a scan of a table, or of a place that no table has."""
        self.scans += 1
        self.filters += len(filters)
        self.unread.update(each for each in filters if isinstance(each, Unread))
        if started_ms is not None:
            self._begin = started_ms if self._begin is None else min(self._begin, started_ms)
            self._end = started_ms if self._end is None else max(self._end, started_ms)
        if name is None:
            self._add_other(place, asked.read_bytes)
        else:
            self._workload(name).add(asked)

    @property
    def days(self) -> float | None:
        """The days between the first and the last query; None if that is less than a day."""
        if self._begin is None or self._end is None or self._end - self._begin < _DAY_MS:
            return None
        return (self._end - self._begin) / _DAY_MS

    def asked(self) -> Iterator[tuple[ResolvedTable, Workload]]:
        """Yield the tables that were scanned, those that read most first."""
        for name in sorted(self._workloads, key=lambda name: (-self._workloads[name].read_bytes, name)):
            yield self._tables[name], self._workloads[name]

    def other_tables(self) -> tuple[OtherLocation, ...]:
        """Return the locations that no table has, those that read most first."""
        found = sorted(self._others.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
        return tuple(
            OtherLocation(location=location, scans=scans, read_bytes=read_bytes)
            for location, (scans, read_bytes) in found
        )

    def _table_at(self, path: str) -> str | None:
        while path not in self._places:
            path, slash, _ = path.rpartition("/")
            if not slash:
                return None
        return self._places[path]

    def _workload(self, name: str) -> Workload:
        if name not in self._workloads:
            spec = self._tables[name].spec
            self._workloads[name] = Workload(
                SpecColumns(
                    names={column.lower(): column for column in column_types(spec.columns)},
                    personal=personal_column_names(spec, pii_columns(spec.columns)),
                )
            )
        return self._workloads[name]

    def _add_other(self, path: str | None, size_bytes: int | None, *, scans: int = 1) -> None:
        # Values of partitions may be personal, and a path may have a password.
        shown = "" if path is None else _WITH_PASSWORD.sub("", _PARTITION.sub("", path))
        shown = one_line(shown[:_LONGEST_PATH])
        if shown not in self._others and len(self._others) >= _MOST_OTHERS:
            shown = ""
        before, read_bytes = self._others.get(shown, (0, 0))
        self._others[shown] = (before + scans, read_bytes + (size_bytes or 0))


def _place(location: str) -> str:
    """Return one spelling of a location; of a storage that parquetry does not read, the location itself."""
    try:
        return normalised(location)
    except LocationProblem:
        return location.rstrip("/")


class _Change:
    """The proposed change of the file of a table."""

    def __init__(
        self, table: ResolvedTable, workload: Workload, *, most: int, days: float | None, root: Path
    ) -> None:
        self._table = table
        self._workload = workload
        self._days = days
        # A link may lead to another file of the project.
        self.path = str((root / table.file).resolve().relative_to(root.resolve()))
        self.before = ConfinedFolder(root).read(self.path).decode("utf-8-sig")
        self._declared: dict[str, list[int]] = {}
        for number, query in enumerate(table.spec.extra.queries):
            shape = shape_of_text(query.where, without=workload.columns.are_personal)
            self._declared.setdefault(shape, []).append(number)
        shapes = workload.shapes
        self._several = [shape for shape in shapes if len(self._declared.get(shape, ())) > 1]
        ranked = sorted(
            shapes.keys() - {*self._several},
            key=lambda shape: (-shapes[shape].read_bytes, -shapes[shape].runs, shape),
        )
        self._chosen, self._rare = ranked[:most], ranked[most:]
        self.queries = tuple(self._queries())
        self._problem: Text | None = None
        try:
            self.after = self._edited(self.before)
        except NotEditableError as error:
            self.after, self._problem = self.before, error.message

    def result(self) -> LearnedTable:
        """Return the report."""
        workload = self._workload
        others = {(shape, LeftOut.RARE): workload.shapes[shape] for shape in self._rare}
        others |= {(shape, LeftOut.SEVERAL): workload.shapes[shape] for shape in self._several}
        unproposed = sorted(
            {**workload.left_out, **others}.items(),
            key=lambda item: (-item[1].read_bytes, -item[1].runs, item[0]),
        )
        return LearnedTable(
            table=self._table.name,
            file=self._table.file,
            scans=workload.scans,
            read_bytes=workload.read_bytes,
            unsized_scans=workload.unsized_scans,
            covered_bytes=sum(query.read_bytes for query in self.queries)
            + sum(workload.shapes[shape].read_bytes for shape in self._several),
            unconditional_scans=workload.unconditional_scans,
            unconditional_bytes=workload.unconditional_bytes,
            queries=self.queries,
            unproposed=tuple(
                UnproposedShape(shape=shape, reason=reason, runs=found.runs, read_bytes=found.read_bytes)
                for (shape, reason), found in unproposed
            ),
            not_seen=tuple(self._not_seen()),
            diff=self._diff(),
            problem=self._problem,
        )

    def _not_seen(self) -> Iterator[str]:
        """Yield the declared queries whose shape is in no log; none if too many shapes were asked."""
        workload = self._workload
        if any(reason is LeftOut.MANY for _, reason in workload.left_out):
            return
        left_out = {shape.lower() for shape, _ in workload.left_out}
        for shape, numbers in self._declared.items():
            for number in numbers:
                query = self._table.spec.extra.queries[number]
                if has_term(parse_condition(query.where)):
                    # It may have been asked with a text, which is not understood beside a function.
                    continue
                whole = shape_of_text(query.where)
                if whole and shape not in workload.shapes and whole.lower() not in left_out:
                    yield query.name

    def _queries(self) -> Iterator[LearnedQuery]:
        declared = self._table.spec.extra.queries
        taken = {query.name for query in declared}
        total = sum(shape.runs for shape in self._workload.shapes.values())
        personal = self._workload.columns.personal
        for text in self._chosen:
            shape = self._workload.shapes[text]
            weight = _rounded(100 * shape.runs / total)
            numbers = self._declared.get(text)
            if numbers is None:
                name = _free_name(_columns_of(shape.example), taken)
                taken.add(name)
                change, where = QueryChange.NEW, shape.example
            else:
                found = declared[numbers[0]]
                name, where = found.name, masked_sql(found.where, personal)
                change = QueryChange.NONE if found.weight == weight else QueryChange.WEIGHT
            yield LearnedQuery(
                name=name,
                change=change,
                where=where,
                shape=text,
                weight=weight,
                runs_per_day=None if self._days is None else _rounded(shape.runs / self._days),
                runs=shape.runs,
                read_bytes=shape.read_bytes,
                selectivity=shape.selectivity,
                masked=tuple(sorted(shape.masked)),
            )

    def _edited(self, text: str) -> str:
        file = self._table.file
        root = parse_text(SourceText(path=file, text=text)).root
        assert root is not None, "the file is valid"
        entries = [dict(entry) for entry in root.value.get("queries", ())]
        for query in self.queries:
            if query.change is QueryChange.WEIGHT:
                entries[self._declared[query.shape][0]]["weight"] = query.weight
            elif query.change is QueryChange.NEW:
                entries.append({"name": query.name, "where": query.where, "weight": query.weight})
                if query.runs_per_day:
                    entries[-1]["runs_per_day"] = query.runs_per_day
        if not any(query.change is not QueryChange.NONE for query in self.queries):
            return text
        return with_document(text, {**root.value, "queries": entries}, file=file)

    def _diff(self) -> tuple[str, ...]:
        """Return the difference of the file without its context; personal values in it are masked."""
        if self.after == self.before:
            return ()
        lines = difflib.unified_diff(
            self._masked(self.before).splitlines(),
            self._masked(self.after).splitlines(),
            f"a/{self._table.file}",
            f"b/{self._table.file}",
            lineterm="",
            n=0,
        )
        return tuple(lines)

    def _masked(self, text: str) -> str:
        personal = self._workload.columns.personal
        masked: dict[DocumentPath, str] = {
            ("queries", number, "where"): flow(shown)
            for number, query in enumerate(self._table.spec.extra.queries)
            if (shown := masked_sql(query.where, personal)) != query.where
        }
        return with_values(text, masked, file=self._table.file)


def _columns_of(where: str) -> Sequence[str]:
    """Return the columns of a condition, sorted, without dots."""
    return sorted(columns_in(parse_condition(where)))


def _free_name(columns: Sequence[str], taken: Iterable[str]) -> str:
    """Return a name for a query on these columns that no other query has."""
    words = [re.sub(r"[^a-z0-9_]+", "_", column) for column in columns]
    stem = "by_" + "_and_".join(words)
    stem = stem[:_LONGEST_NAME].rstrip("_")
    known = {name.lower() for name in taken}
    number = 1
    while (name := stem if number == 1 else f"{stem}-{number}") in known:
        number += 1
    return name


def _rounded(value: float) -> float:
    """Return a value with three significant digits and at most six after the point; an int if it is one."""
    found = round(float(f"{value:.3g}"), 6)
    return int(found) if found.is_integer() else found
