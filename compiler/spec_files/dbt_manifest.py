"""The models of a dbt project, from its manifest: columns, tests and the keys below ``meta.parquetry``.

The form is that of the published schema, https://schemas.getdbt.com/dbt/manifest/v12.json. A manifest is data
of others: a model with a name, value or template that no spec may contain is left out, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.spec_files.yaml import KEY_ORDER
from parquetry.errors import UsageError, message_of
from parquetry.message import Message, Text
from parquetry.project.diagnostics.model import one_of
from parquetry.project.validation.template_syntax import is_template
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, PLAN_STRATEGIES
from parquetry.runtime.spec.types import parse_type
from parquetry.text.printable import quoted

OURS: Final = "dbt-"
"""The beginning of the names of tests that come from dbt."""

_VERSION: Final = re.compile(r"/manifest/v(\d+)(?:\.json)?$")
_KNOWN_VERSION: Final = "12"
_META: Final = "parquetry"
_TABLES: Final = frozenset({"table", "incremental"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_COLUMN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_UNIQUE_ID: Final = re.compile(r"model\.[\w.]{1,500}", re.ASCII)
_DEEPEST: Final = 16
_LONGEST_TEST_NAME: Final = 110
_OTHER_KEYS: Final = frozenset({"apiVersion", "kind", "columns", "moved", "tests"})
_META_KEYS: Final = tuple(key for key in KEY_ORDER if key not in _OTHER_KEYS)
_SPEC_ALONE: Final = (("location",), ("files", "encryption_key"), ("files", "former_encryption_keys"))
"""Keys that say where a table is, and by which keys its files are read: a manifest is data of others."""

_STRATEGIES: Final = (("plan", PLAN_STRATEGIES), ("execution", EXECUTION_STRATEGIES))
_COLUMN_KEYS: Final = ("type", "nullable", "description", "generated", "pii")
_NOT_NULL: Final = frozenset({"not_null", "primary_key"})
_DEFAULT_LIMIT: Final = "!= 0"

_SPARK: Final = frozenset({"spark", "databricks", "fabricspark", "glue", "athena"})
"""The adapters whose types are those of Spark SQL or Hive."""

_SQL_SERVER: Final = frozenset({"sqlserver", "fabric", "synapse"})
_STANDARD: Final = _SQL_SERVER | {"postgres", "redshift", "duckdb", "trino", "mysql", "clickhouse"}
"""The adapters in which smallint, int and bigint have 16, 32 and 64 bits."""

_MEANT: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("smallint", "int", "integer", "bigint", "int2", "int4"), _STANDARD),
    **dict.fromkeys(("short", "long", "float"), ("duckdb",)),
    "byte": (),
    "tinyint": ("duckdb", "trino", "mysql", "clickhouse"),
    **dict.fromkeys(("real", "float4"), _STANDARD - {"mysql"}),
    **dict.fromkeys(("double", "double precision", "float8"), _STANDARD | {"snowflake"}),
    "date": _STANDARD | {"snowflake", "bigquery", "teradata"},
    "timestamp": (_STANDARD - _SQL_SERVER) | {"snowflake", "bigquery", "teradata", "oracle"},
}
"""Names of types that mean another type in some databases, and the other adapters that mean Spark's."""

_DECIMALS: Final = frozenset({"decimal", "dec", "numeric", "number"})
_SYNONYMS: Final = {
    "bool": "boolean",
    **dict.fromkeys(("int2", "int16"), "smallint"),
    **dict.fromkeys(("int4", "int32"), "int"),
    "int64": "bigint",
    **dict.fromkeys(("float4", "float32"), "float"),
    **dict.fromkeys(("double precision", "float8", "float64"), "double"),
    **dict.fromkeys(("text", "varchar", "char", "character", "character varying", "bpchar"), "string"),
    **dict.fromkeys(("nvarchar", "nchar"), "string"),
    **dict.fromkeys(("blob", "bytea", "bytes", "varbinary"), "binary"),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), "timestamp"),
    **dict.fromkeys(("timestamp_tz", "timestamp with local time zone"), "timestamp"),
}
"""Names of types that mean the same in every database that has them."""

_LOCAL_TIMES: Final = frozenset({"timestamp", "timestamp without time zone"})
_TYPE: Final = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*(?: [a-z]+)*) ?(?P<size>\([0-9, ]*\))?(?P<zone> [a-z ]+)?"
)


class ManifestError(UsageError):
    """A file is not a manifest of dbt, or one of a version that is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtModel:
    """A model that a spec can declare.

    ``keys`` are top-level keys of a spec, ``columns`` and ``tests`` are entries of its lists. A relationship
    names the other model by its unique id until all tables are known. ``name`` is the one for a new spec.
    """

    unique_id: str
    name: str
    keys: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    tests: tuple[Mapping[str, Any], ...]
    notes: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutModel:
    """A model without a spec, and the reason. ``is_declared``: its meta has the keys of a spec."""

    model: str
    reason: Text
    is_declared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DbtModels:
    """The models of a manifest that are tables, by unique id, and those that cannot be taken."""

    models: Mapping[str, DbtModel]
    left_out: tuple[LeftOutModel, ...]


class _NotTakenError(Exception):
    """A model, column or test that no spec can declare."""

    def __init__(self, reason: Text) -> None:
        super().__init__()
        self.reason = reason


def read_manifest(path: Path) -> DbtModels:
    """Return the models of a manifest file.

    Raises:
        ManifestError: if the file cannot be read, or is no manifest of version 12 (dbt 1.8 and later).

    """
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise ManifestError(
            "{file} cannot be read: {reason}; let `dbt parse` write it", file=path, reason=error.strerror
        ) from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(
            "{file} is not JSON; name the manifest.json that `dbt parse` writes", file=path
        ) from error
    found = _VERSION.search(_text(_at(manifest, "metadata", "dbt_schema_version")))
    nodes = _at(manifest, "nodes")
    if found is None or not isinstance(nodes, dict):
        raise ManifestError(
            "{file} is not a manifest of dbt; name the manifest.json that `dbt parse` writes", file=path
        )
    if found[1] != _KNOWN_VERSION:
        raise ManifestError(
            "{file} is a manifest of version {version}; only version {known} is read, as dbt 1.8 and later "
            "write it",
            file=path,
            version=found[1],
            known=_KNOWN_VERSION,
        )
    return _models(nodes, _text(_at(manifest, "metadata", "adapter_type")))


def _models(nodes: Mapping[str, Any], adapter: str) -> DbtModels:
    """Return the models of the nodes of a manifest."""
    tests: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for unique_id, node in nodes.items():
        if _at(node, "resource_type") == "test":
            tests.setdefault(_text(_at(node, "attached_node")), []).append((unique_id, node))
    models: dict[str, DbtModel] = {}
    left_out = []
    for unique_id, node in sorted(nodes.items()):
        if _at(node, "resource_type") != "model":
            continue
        declared = _meta(node)
        is_table = _at(node, "config", "materialized") in _TABLES
        if declared is False or (declared is None and not is_table):
            continue
        try:
            models[unique_id] = _model(unique_id, node, tests.get(unique_id, []), adapter)
        except _NotTakenError as untaken:
            left_out.append(
                LeftOutModel(
                    model=_shown(unique_id),
                    reason=untaken.reason,
                    is_declared=declared is not None and (is_table or declared is not True),
                )
            )
    return DbtModels(models=models, left_out=tuple(left_out))


def _model(
    unique_id: str, node: Mapping[str, Any], tests: Sequence[tuple[str, Mapping[str, Any]]], adapter: str
) -> DbtModel:
    """Return the model of a node; raise _NotTakenError if no spec can declare it."""
    kind = _at(node, "config", "materialized")
    if kind not in _TABLES:
        raise _NotTakenError(
            Message("it is materialized as {kind}, not as a table or incremental", kind=quoted(_text(kind)))
        )
    if not _UNIQUE_ID.fullmatch(unique_id):
        raise _NotTakenError("its id has characters other than letters, digits, '_' and '.'; rename it")
    declared = _meta(node)
    keys = {} if declared in (None, True) else declared
    if not isinstance(keys, dict):
        raise _NotTakenError("meta.parquetry is not a mapping; write keys of a spec below it, or false")
    for key in keys:
        if key not in _META_KEYS:
            raise _NotTakenError(
                Message(
                    "meta.parquetry has {key}; {hint}",
                    key=quoted(key),
                    hint=one_of("key", key, list(_META_KEYS)),
                )
            )
    _check_permitted(keys)
    _check_plain(_without_description(keys), "meta.parquetry")
    keys = dict(keys)
    name = keys.pop("name", None) or _at(node, "alias") or _at(node, "name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _NotTakenError(
            Message(
                "{name} cannot be the name of a table, which has letters, digits and '_', and no digit at "
                "its start; write another under meta.parquetry.name",
                name=quoted(_text(name)),
            )
        )
    description = _text(_at(node, "description")).strip()
    if description:
        keys.setdefault("description", description)
    columns, notes = _columns(node, keys, adapter)
    entries, untaken = _tests(tests, {str(column["name"]): column for column in columns})
    return DbtModel(
        unique_id=unique_id,
        name=name,
        keys={key: _apart(value) if key == "description" else value for key, value in keys.items()},
        columns=columns,
        tests=entries,
        notes=(*notes, *untaken),
    )


def _columns(
    node: Mapping[str, Any], keys: Mapping[str, Any], adapter: str
) -> tuple[tuple[Mapping[str, Any], ...], list[Text]]:
    """Return the entries of a model's columns, and notes on them."""
    is_enforced = _at(node, "contract", "enforced") is True
    required = {each.lower() for each in _texts(keys.get("record_key"))}
    for constraint in _items(_at(node, "constraints")) if is_enforced else ():
        if _at(constraint, "type") in _NOT_NULL:
            required |= {each.lower() for each in _texts(_at(constraint, "columns"))}
    listed = _at(node, "columns")
    entries: list[Mapping[str, Any]] = []
    local: list[str] = []
    names: set[str] = set()
    for column in listed.values() if isinstance(listed, dict) else ():
        name = _text(_at(column, "name"))
        if not _COLUMN_NAME.fullmatch(name):
            raise _NotTakenError(
                Message(
                    "{column} cannot be the name of a column, which has letters, digits and '_', and no "
                    "digit at its start; rename it, or declare a struct as one column",
                    column=quoted(name),
                )
            )
        if name.lower() in names:
            raise _NotTakenError(
                Message("two columns are {column}, apart from upper and lower case; rename one", column=name)
            )
        names.add(name.lower())
        entry = _column(column, name, adapter, local)
        constraints = _items(_at(column, "constraints")) if is_enforced else ()
        if name.lower() in required or any(_at(each, "type") in _NOT_NULL for each in constraints):
            entry["nullable"] = False
        entries.append(entry)
    if not entries:
        raise _NotTakenError("it lists no columns; list them with their data_type")
    notes: list[Text] = []
    if not is_enforced:
        notes.append("its contract is not enforced, so that dbt does not check that all columns are listed")
    if local:
        notes.append(Message("times without a zone are taken for UTC: {columns}", columns=local))
    return tuple(entries), notes


def _column(column: Mapping[str, Any], name: str, adapter: str, local: list[str]) -> dict[str, Any]:
    """Return the entry of a column; add its name to ``local`` if its times have no zone."""
    declared = _meta(column)
    own = {} if declared is None else declared
    if not isinstance(own, dict):
        raise _NotTakenError(Message("meta.parquetry of column {column} is not a mapping", column=name))
    for key in own:
        if key not in _COLUMN_KEYS:
            raise _NotTakenError(
                Message(
                    "meta.parquetry of column {column} has {key}; {hint}",
                    column=name,
                    key=quoted(key),
                    hint=one_of("key", key, list(_COLUMN_KEYS)),
                )
            )
    _check_plain(_without_description(own), f"meta.parquetry of column {name}")
    kind = own.get("type")
    if kind is None:
        kind, is_local = _type(_text(_at(column, "data_type")), name, adapter)
        local += [name] if is_local else []
    entry: dict[str, Any] = {"name": name, "type": kind}
    description = _text(_at(column, "description")).strip()
    entry |= {"description": description} if description else {}
    entry |= {key: value for key, value in own.items() if key != "type"}
    return {key: _apart(value) if key == "description" else value for key, value in entry.items()}


def _type(declared: str, column: str, adapter: str) -> tuple[str, bool]:
    """Return the Spark SQL type of a type in the words of a database, and whether its times have no zone.

    A word that means another type in some databases is taken only from those known to mean this one.
    """
    if not declared.strip():
        raise _NotTakenError(Message("column {column} has no data_type", column=column))
    words = " ".join(declared.lower().split())
    found = _TYPE.fullmatch(words)
    name = "" if found is None else f"{found['name']}{found['zone'] or ''}"
    size = (found and found["size"]) or ""
    is_spark = adapter in _SPARK
    is_local = not is_spark and adapter != "bigquery" and name in _LOCAL_TIMES
    is_ambiguous = not is_spark and (
        found is None or adapter not in _MEANT.get(name, (adapter,)) or (name in _DECIMALS and not size)
    )
    text = "timestamp" if is_local else _SYNONYMS.get(name, declared)
    if name == "number" and size:
        text = f"decimal{size}"
    try:
        if not is_ambiguous:
            return str(parse_type(text)), is_local
        reason: Text = "databases differ in what it means, and this one is not known to mean Spark's type"
    except InvalidDataError as error:
        reason = message_of(error)
    raise _NotTakenError(
        Message(
            "column {column} is {type}: {reason}; write a type of Spark SQL under meta.parquetry.type of the "
            "column",
            column=column,
            type=quoted(declared[:200]),
            reason=reason,
        )
    )


def _tests(
    found: Sequence[tuple[str, Mapping[str, Any]]], columns: Mapping[str, Mapping[str, Any]]
) -> tuple[tuple[Mapping[str, Any], ...], list[Text]]:
    """Return the entries of a model's tests, by columns and kinds, and notes on those that are not taken."""
    entries: list[tuple[str, Mapping[str, Any]]] = []
    notes: list[Text] = []
    for unique_id, node in sorted(found):
        if _meta(node) is False:
            continue
        try:
            entries.append(_test(node, columns))
        except _NotTakenError as untaken:
            notes.append(
                Message("test {test} is not taken: {reason}", test=_shown(unique_id), reason=untaken.reason)
            )
    order = list(columns)
    taken: dict[str, Mapping[str, Any]] = {}
    for name, entry in sorted(entries, key=lambda each: (_place(each[1], order), json.dumps(each))):
        if entry in taken.values():
            continue
        number = 1 + sum(each == name or each.startswith(f"{name}--") for each in taken)
        taken[name if number == 1 else f"{name}--{number}"] = entry
    return tuple({"name": name, **entry} for name, entry in taken.items()), notes


def _place(test: Mapping[str, Any], order: Sequence[str]) -> int:
    """Return the number of the first column that a test is about."""
    columns = test.get("not_null") or test.get("unique") or _at(test, "relationships", "columns")
    return order.index(columns[0] if columns else test["accepted_values"]["column"])


def _test(node: Mapping[str, Any], listed: Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the entry of a test; raise _NotTakenError if no test of a spec is equal to it."""
    namespace, kind = _at(node, "test_metadata", "namespace"), _at(node, "test_metadata", "name")
    arguments = _at(node, "test_metadata", "kwargs")
    config = _at(node, "config")
    if _at(config, "where") is not None:
        raise _NotTakenError("its where selects rows; where of a spec selects partitions")
    limits = [_at(config, key) for key in ("warn_if", "error_if")]
    if any(limit not in (None, _DEFAULT_LIMIT) for limit in limits) or _at(config, "fail_calc") != "count(*)":
        raise _NotTakenError("it has limits of its own; declare it in the spec with max_failures")
    column = _text(_at(arguments, "column_name"))
    columns = [column]
    if (namespace, kind) == ("dbt_utils", "unique_combination_of_columns"):
        kind, columns = "unique", list(_texts(_at(arguments, "combination_of_columns")))
    elif namespace is not None:
        kind = None
    if kind not in ("not_null", "unique", "accepted_values", "relationships"):
        raise _NotTakenError("no test of a spec is equal to it")
    if not columns or any(each not in listed for each in columns):
        raise _NotTakenError("it is not about listed columns")
    if namespace is not None and any(listed[each].get("nullable") is not False for each in columns):
        raise _NotTakenError(
            "to dbt, rows with equal nulls are duplicates, and to a spec they are not; require its columns "
            "by not_null in an enforced contract"
        )
    named = [kind, *columns]
    entry: dict[str, Any] = {kind: columns}
    if kind == "accepted_values":
        values = _accepted(_at(arguments, "values"), str(listed[column]["type"]))
        entry = {kind: {"column": column, "values": values}}
    elif kind == "relationships":
        own, field = _at(node, "attached_node"), _text(_at(arguments, "field"))
        others = [each for each in _texts(_at(node, "depends_on", "nodes")) if each != own] or [own]
        if len(others) != 1 or not _COLUMN_NAME.fullmatch(field):
            raise _NotTakenError("it does not name one model and a column of it")
        entry = {kind: {"columns": columns, "to": others[0]}}
        entry[kind] |= {} if field == column else {"to_columns": [field]}
    if _text(_at(config, "severity")).lower() == "warn":
        entry["severity"] = "warn"
    return f"{OURS}{'-'.join(named)}"[:_LONGEST_TEST_NAME], entry


def _accepted(values: Any, kind: str) -> list[Any]:
    """Return the values of a test for a column of this type; dbt compares them as texts or as they are."""
    is_text = kind in ("string", "date") or kind.startswith("timestamp")
    found: list[Any] = []
    for value in _items(values):
        plain = value
        if is_text and isinstance(value, int | float) and not isinstance(value, bool):
            plain = str(value)
        elif not is_text and isinstance(value, str):
            try:
                plain = json.loads(value)
            except (ValueError, RecursionError):
                plain = None
        if not isinstance(plain, str | int | float) or is_template(plain) or not _is_finite(plain):
            raise _NotTakenError("one of its values cannot be written in a spec")
        found += [plain] if plain not in found else []
    if not found:
        raise _NotTakenError("it has no values")
    return found


def _is_finite(value: str | float) -> bool:
    return isinstance(value, str) or isfinite(value)


def _meta(node: Any) -> Any:
    """Return what meta says under ``parquetry``; dbt 1.10 moved the meta of columns to their config."""
    in_config = _at(node, "config", "meta", _META)
    return _at(node, "meta", _META) if in_config is None else in_config


def _check_permitted(keys: Mapping[str, Any]) -> None:
    """Raise _NotTakenError for places, keys for encryption and plug-ins, which the spec alone may name."""
    named = [
        ".".join(path)
        for path in _SPEC_ALONE
        if isinstance(section := _at(keys, *path[:-1]), dict) and path[-1] in section
    ]
    if any("encryption_keys" in source for source in _items(keys.get("sources")) if isinstance(source, dict)):
        named.append("sources.encryption_keys")
    for section, strategies in _STRATEGIES:
        if _at(keys, "clustering", section, "strategy") not in (None, *strategies.built_in):
            named.append(f"clustering.{section}.strategy")
    if named:
        raise _NotTakenError(
            Message(
                "meta.parquetry has {keys}, which a manifest must not say; declare it in the spec",
                keys=named,
            )
        )


def _check_plain(value: Any, path: str, depth: int = 0) -> None:
    """Raise _NotTakenError for templates, and for values that are nested too deeply."""
    if depth > _DEEPEST:
        raise _NotTakenError(Message("{path} is nested too deeply", path=path))
    for text in [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []:
        if is_template(text):
            raise _NotTakenError(
                Message(
                    "{path} contains a template, {text}; write the value out, or declare it in the spec",
                    path=path,
                    text=quoted(text[:80]),
                )
            )
    for key, each in value.items() if isinstance(value, dict) else enumerate(_items(value)):
        _check_plain(each, f"{path}.{key}", depth + 1)


def _without_description(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys without the description, in which braces are moved apart."""
    return {key: value for key, value in keys.items() if key != "description"}


def _apart(text: Any) -> Any:
    """Return a description in which no two characters begin a template; a spec cannot escape them."""
    return re.sub(r"\{(?=[{%#])", "{ ", text) if isinstance(text, str) else text


def _shown(unique_id: str) -> str:
    """Return the id of a node for people; one with other characters than usual is quoted."""
    return unique_id if re.fullmatch(r"[\w.]{1,500}", unique_id, re.ASCII) else quoted(unique_id[:500])


def _at(value: Any, *keys: str) -> Any:
    """Return the value at a path of keys, or None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    """Return a text; any other value counts as none."""
    return value if isinstance(value, str) else ""


def _items(value: Any) -> list[Any]:
    """Return a list; any other value counts as an empty one."""
    return value if isinstance(value, list) else []


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a list."""
    return (each for each in _items(value) if isinstance(each, str))
