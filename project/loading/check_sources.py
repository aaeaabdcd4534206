"""Checks of sources, queries and SQL in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from parquetry.message import in_full
from parquetry.project.diagnostics.model import did_you_mean, some
from parquetry.project.loading.check_settings import check_key
from parquetry.project.loading.resolve import Resolution, test_entries
from parquetry.project.sql.checked import Sql, columns_read, unknown_columns
from parquetry.project.sql.guard import SqlProblem, check_expression, check_select
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.reader_options import option_problems
from parquetry.runtime.spec.rules import DELETE_FLAG
from parquetry.runtime.spec.table_spec import MODIFIED, Operation, Source, Ties
from parquetry.runtime.spec.types import may_have_fields
from parquetry.text.secret_names import MASK
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_WITHOUT_KEY = (Operation.INSERT, Operation.BULK_INSERT)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_ANY_QUOTED: Final = re.compile("""['"].*['"]""", re.DOTALL)
"""The text from the first quote of a message to the last one."""


def check_sources(resolution: Resolution) -> None:
    """Report duplicate names, and settings and SQL of sources that cannot work or have no effect."""
    _check_unique(resolution, "sources", "source")
    _check_unique(resolution, "queries", "query")
    _check_unique(resolution, "tests", "test")
    for source in resolution.table.spec.sources:
        _check_operation(resolution, source)
        _check_options(resolution, source)
    _check_sql(resolution)


def check_sql_of_tests(resolution: Resolution) -> None:
    """Report duplicate names and invalid SQL in a file of tests, where the columns are not known."""
    _check_unique(resolution, "queries", "query")
    _check_unique(resolution, "tests", "test")
    for query in resolution.table.spec.extra.queries:
        _checked(resolution, check_expression, query.where, f"queries.{query.name}.where")
    for place, entry in test_entries(resolution):
        for key in ("expression", "where"):
            if key in entry:
                _checked(resolution, check_expression, entry[key], f"{place}.{key}")


def _check_unique(resolution: Resolution, section: str, noun: str) -> None:
    """Report entries of a section whose names are equal in any case."""
    first: dict[str, str] = {}
    for index, entry in enumerate(resolution.file.value.get(section, ())):
        name = entry.get("name")
        if name is None:
            continue
        if (earlier := first.get(name.lower())) is not None:
            node = resolution.file.node.at((section, index, "name"))
            also = "" if earlier == name else f", also as '{earlier}'"
            resolution.report_at(
                "PQ301", f"{noun} '{name}' is declared twice{also}", node, "rename one of them"
            )
        first.setdefault(name.lower(), name)


def _check_operation(resolution: Resolution, source: Source) -> None:
    """Report a source whose operation misses a key or partitions, and its settings without effect."""
    path = f"sources.{source.name}"
    operation = f"{path}.operation"
    has_key = bool(resolution.table.spec.record_key) or not resolution.intact("record_key")

    def no_effect(key: str, why: str) -> None:
        resolution.report("PQ701", f"{key} has no effect {why}", f"{path}.{key}", "remove it", at_key=True)

    if source.operation not in _WITHOUT_KEY and not has_key:
        summary = f"operation {source.operation} of source '{source.name}' needs a record key"
        resolution.report("PQ502", summary, operation, "declare record_key, or use operation: insert")
    if source.match and source.operation is not Operation.DELETE:
        no_effect("match", f"with operation: {source.operation}")
    if source.delete_when is not None and source.operation is not Operation.UPSERT:
        no_effect("delete_when", f"with operation: {source.operation}")
    if source.drop_duplicates and source.operation is Operation.UPSERT:
        no_effect("drop_duplicates", "with operation: upsert, which always does")
    if source.removed_rows != "error" and (source.format != "hudi" or source.read == "full"):
        no_effect("removed_rows", "unless new rows of a Hudi table are read")
    if source.encryption_keys and source.format != "hudi":
        no_effect("encryption_keys", f"with format: {source.format}")
    for reference in source.encryption_keys if resolution.intact(path) else ():
        check_key(resolution, f"{path}.encryption_keys", reference)
    if source.drop_duplicates and not has_key:
        resolution.report(
            "PQ502",
            "drop_duplicates needs a record key",
            f"{path}.drop_duplicates",
            "declare record_key",
            at_key=True,
        )
    _check_order(resolution, source, no_effect, has_key=has_key)
    if source.read == "full" and source.operation in (Operation.INSERT, Operation.BULK_INSERT):
        summary = f"read: full with operation: {source.operation} adds all rows again whenever a file changes"
        resolution.report("PQ706", summary, f"{path}.read", "use read: new or operation: upsert")
    if source.path in (resolution.table.location, resolution.table.location_declared):
        summary = f"source '{source.name}' reads the table itself: its own commits are new to it in every run"
        resolution.report("PQ706", summary, f"{path}.path", "name the path of another table")
    if (
        source.operation is Operation.INSERT_OVERWRITE
        and not resolution.table.spec.partition_by
        and resolution.intact("partition_by")
    ):
        summary = "insert_overwrite replaces whole partitions, but the table has none"
        resolution.report("PQ701", summary, operation, "use insert_overwrite_table")


def _check_order(
    resolution: Resolution, source: Source, no_effect: Callable[[str, str], None], *, has_key: bool
) -> None:
    """Report ``file_order`` and ``ties`` if they have no effect, and rows with no order to choose by.

    If two rows of a batch have one key, the one that counts is chosen by their order. Rows of a query
    and of a Hudi table have none, so they need an ordering column or ``ties``.
    """
    chooses = has_key and (source.operation is Operation.UPSERT or source.drop_duplicates)
    is_ordered = source.select is None and source.format != "hudi"
    if source.file_order != MODIFIED and not (chooses and is_ordered):
        why = "on rows of a query, which have no order" if chooses else "where every row counts"
        no_effect("file_order", why)
    if source.ties is not Ties.REFUSE and (is_ordered or not chooses):
        why = "on rows of files, of which the last one counts" if chooses else "where every row counts"
        no_effect("ties", why)
    if chooses and not is_ordered and source.ties is Ties.REFUSE and resolution.table.spec.ordering is None:
        summary = (
            f"source '{source.name}' has rows without an order: two rows with one key in a batch are refused"
        )
        at = f"sources.{source.name}.{'select' if source.select else 'format'}"
        resolution.report("PQ709", summary, at, "declare ordering, or ties: any", at_key=True)


def _check_options(resolution: Resolution, source: Source) -> None:
    """Report options of a source that its format does not have, or wrong values of them."""
    for problem in option_problems(source.format, source.options):
        path = f"sources.{source.name}.options.{problem.name}"
        hint = did_you_mean(problem.name, problem.among) or problem.hint
        resolution.report("PQ507", problem.summary, path, hint, at_key=True)


def _check_sql(resolution: Resolution) -> None:
    """Report errors in the SQL of generated columns, sources, queries and tests."""
    generated = {c.name.lower(): c.name for c in resolution.table.spec.columns if c.generated is not None}
    for column in resolution.table.spec.columns:
        if column.generated is not None:
            path = f"columns.{column.name}.generated"
            sql = _checked(resolution, check_expression, column.generated, path)
            names = columns_read(sql, generated)
            if names:
                # All generated columns are computed at once, so one would read another as null.
                other = (
                    "itself" if column.name.lower() in names else f"'{generated[min(names)]}', which is too"
                )
                summary = f"column '{column.name}' is generated from {other}"
                resolution.report("PQ601", summary, path, "use columns that are not generated")
            _check_names(resolution, sql, path)
    for source in resolution.table.spec.sources:
        selected: frozenset[str] | None = None
        if source.select is not None:
            sql = _checked(resolution, check_select, source.select, f"sources.{source.name}.select")
            selected = sql.selected
            _check_select_columns(resolution, source, selected)
        if source.delete_when is not None:
            path = f"sources.{source.name}.delete_when"
            sql = _checked(resolution, check_expression, source.delete_when, path)
            if selected is not None and source.operation is Operation.UPSERT:
                _check_selected(resolution, sql, selected, path)
    for query in resolution.table.spec.extra.queries:
        path = f"queries.{query.name}.where"
        sql = _checked(resolution, check_expression, query.where, path)
        _check_names(resolution, sql, path, of_stored_rows=True)
    for place, entry in test_entries(resolution):
        for key in {"expression", "where"} & entry.keys():
            path = f"{place}.{key}"
            sql = _checked(resolution, check_expression, entry[key], path)
            _check_names(resolution, sql, path, of_stored_rows=True)
            if key == "where":
                _check_partition_columns(resolution, sql, path)


def _check_partition_columns(resolution: Resolution, sql: Sql, path: str) -> None:
    """Report columns of a layout test's condition that are not partition columns."""
    partitioned = {name.lower() for name in resolution.table.spec.partition_by}
    others = {name.lower(): name for name in resolution.types if name.lower() not in partitioned}
    for name in sorted(columns_read(sql, others)):
        summary = f"column '{others[name]}' is not a partition column, so it cannot select partitions"
        columns = ", ".join(resolution.table.spec.partition_by)
        hint = f"use {columns}" if columns else "remove it: the table has no partitions"
        resolution.report("PQ603", summary, path, hint)


def _checked(
    resolution: Resolution,
    check: Callable[[str], Sql],
    text: str,
    path: str,
) -> Sql:
    """Return a text that was checked, or an empty one after an error."""
    try:
        sql = check(text)
    except SqlProblem as problem:
        found = tuple(lexed(text))
        hint = problem.hint and _without_values(resolution, in_full(problem.hint), found)
        summary = _without_values(resolution, in_full(problem.summary), found)
        resolution.report(problem.code, summary, path, hint)
        return Sql(())
    if sql.refusal is not None:
        hint = "correct it if Spark refuses it too: an operator or a comma may be missing"
        resolution.report("PQ712", _without_values(resolution, sql.refusal, sql.tokens), path, hint)
    return sql


def _without_values(resolution: Resolution, message: str, found: Sequence[Token]) -> str:
    """Return a message about SQL in which quoted words that may be personal data are masked.

    Words are masked if the SQL names a column with ``pii: true``. Names of columns are masked only if the
    SQL has a token within which a quote of the message could end.

    Args:
        resolution: The table with its columns.
        message: The message, which quotes tokens of the SQL.
        found: The tokens of the SQL.
    """
    columns = resolution.table.spec.columns
    text = " ".join(token.text for token in found).lower()
    if not any(column.pii and column.name.lower() in text for column in columns):
        return message
    if any(_hides_its_end(token) for token in found):
        return _ANY_QUOTED.sub(f"'{MASK}'", message)
    names = {column.name.lower() for column in columns}

    def shown(quoted: re.Match[str]) -> str:
        word = quoted[0][1:-1]
        is_known = word.lower() in names or not any(map(str.isalnum, word))
        return quoted[0] if is_known else f"'{MASK}'"

    return _QUOTED.sub(shown, message)


def _hides_its_end(token: Token) -> bool:
    """Return whether a message with the token in quotes does not show where the quotes end.

    This is so for names with a quote or a backslash, and for raw strings that end in a backslash.
    """
    if token.kind is TokenKind.STRING:
        return _QUOTED.fullmatch(token.text.lstrip("rR")) is None
    return token.kind is TokenKind.QUOTED and not {"'", '"', "\\"}.isdisjoint(token.text)


def _check_names(
    resolution: Resolution,
    sql: Sql,
    path: str,
    *,
    of_stored_rows: bool = False,
) -> None:
    """Report columns that the table lacks.

    If ``of_stored_rows`` is True, Hudi's meta columns and the table's own name are accepted too.
    """
    if not resolution.columns_known:
        return
    types = {name.lower(): type_ for name, type_ in resolution.types.items()}
    table = resolution.table.name.lower()

    def known(chain: tuple[str, ...]) -> bool:
        if of_stored_rows and chain[0] == table and chain[1:]:
            chain = chain[1:]
        if of_stored_rows and chain[0] in META_COLUMNS:
            return True
        return chain[0] in types and may_have_fields(types[chain[0]], chain[1:])

    names = [column.name for column in resolution.table.spec.columns]
    for chain in unknown_columns(sql, known):
        shown = ".".join(chain)
        if chain[0].lower() in types:
            summary = f"column '{chain[0]}' is {types[chain[0].lower()]}, which has no '{shown}'"
            hint = "name one of its fields"
        else:
            summary = f"the table has no column '{chain[0]}'"
            hint = did_you_mean(chain[0], names) or _columns_are(names)
        resolution.report("PQ603", _without_values(resolution, summary, sql.tokens), path, hint)


def _check_select_columns(resolution: Resolution, source: Source, selected: frozenset[str] | None) -> None:
    """Report columns that the select returns, the table lacks and ``drop`` omits: the write would fail."""
    if selected is None or not resolution.columns_known or source.operation is Operation.DELETE:
        return
    names = [column.name for column in resolution.table.spec.columns]
    kept = selected - {name.lower() for name in (*META_COLUMNS, *names, *source.drop, DELETE_FLAG)}
    for name in sorted(kept):
        hint = did_you_mean(name, names) or "declare the column, or list it under drop"
        summary = f"select returns the column '{name}', which the table does not have"
        resolution.report("PQ603", summary, f"sources.{source.name}.select", hint)


def _check_selected(resolution: Resolution, sql: Sql, selected: frozenset[str], path: str) -> None:
    """Report columns in SQL on the rows of a source's select that the select does not return."""

    def known(chain: tuple[str, ...]) -> bool:
        # A column that is selected unchanged can also be read with its table's name: `source.op`.
        return not selected.isdisjoint(chain[:2])

    for chain in unknown_columns(sql, known):
        hint = did_you_mean(chain[0], selected) or _columns_are(selected)
        summary = f"the source's select returns no column '{chain[0]}'"
        resolution.report("PQ603", _without_values(resolution, summary, sql.tokens), path, hint)


def _columns_are(names: Iterable[str]) -> str:
    """Return the list of columns as a hint."""
    return f"the columns are {some(names)}"
