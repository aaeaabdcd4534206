"""The reference pages of the specification language, written from the schemas and the codes.

``python -m tools.spec_reference`` writes docs/reference/spec.md and diagnostics.md. A test checks that they
are current.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parquetry.project.diagnostics.codes import CODES
from parquetry.project.model.explanation import described
from parquetry.project.validation.definitions import Kind, inlined
from tools.wrap_markdown import wrapped

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_SHARED = ("partitioning", "sizing", "clustering", "retention", "files", "budget")
_HEADINGS = {
    Kind.PROJECT: "Project: parquetry.yml",
    Kind.TABLE: "Table: tables/\\*\\*/NAME.yml",
    Kind.POLICY: "Policy: policies/NAME.yml",
    Kind.GUARDRAIL: "Guardrail: guardrails/NAME.yml",
}
_FAMILIES = {
    "PQ0": "Files and YAML",
    "PQ1": "Form of a spec",
    "PQ2": "Templates and variables",
    "PQ3": "Names, places and files",
    "PQ4": "Columns",
    "PQ5": "Limits and strategies",
    "PQ6": "SQL",
    "PQ7": "Warnings",
}


_PREFACE = """\
# Specification

<!-- Written by `python -m tools.spec_reference`; edit the schemas instead. -->

This page lists every key of the four kinds of files, with its values, its default and the corresponding Hudi setting.
Any other key is an error. Settings come in layers, from the weakest to the strongest: built-in defaults, `defaults` of
the project, `table_version`, `locks` and `readers` of the target, the policy, the table, `targets.<name>.overrides`. Mappings
merge by key, tags are united, and every other value is replaced.

- **Sizes** have a unit: `KiB`, `MiB`, `GiB`, `TiB` are powers of two, `KB`, `MB`, `GB`, `TB` powers of ten, `B` is
  bytes. A number without a unit is an error, except 0.
- **Durations** are whole numbers of `s`, `m`, `h`, `d` or `w`.
- **YAML** is version 1.2: only `true` and `false` are booleans, dates are strings, and `012` is twelve. Duplicate keys,
  merge keys (`<<`), tags, keys that are not strings, and further documents are errors.
- **Templates** (`{{ ... }}`) are evaluated in strings after parsing. They can use `var('name')`, `target.name` and
  `target.warehouse`, and under `targets` also `env_var('NAME', default)`. `environment` declares the variables that
  `env_var` may read; others may be read for credentials only. A string that consists of one expression takes the type
  of its value. Names, kinds, `vars` and `allow` are not evaluated.
- **SQL** is one expression, or one SELECT for `select`, and reads nothing but the rows it is given. The only relations
  are `source` and those that `select` defines in WITH, and an expression cannot contain a query. It may call
  Spark's own functions, by a list, except those that run code (`reflect`, `java_method`, `try_reflect`), open files
  (`from_protobuf`, options of `from_avro` and `from_xml`) or fetch what a text names (`xpath`, `xpath_string` and
  others), and in FROM Spark's generators alone. A function of your own is listed in `spark.parquetry.sql.functions`
  under `spark.conf` of the target, which needs an `allow` entry. `IDENTIFIER()`, `TRANSFORM ... USING`, `${...}` and
  functions of a catalog are refused.
- **Paths:** a relative path starts at the project's folder, and a relative `location` at the warehouse. `..` may not
  lead out of either. Local folders, `s3://`, `s3a://` (the same) and `gs://` are supported.
- **Wildcards** in a source's path are `*`, `?`, `[a-z]`, `[!a]` and `{a,b}`, each within one folder name, and `**` for
  any number of folders. Braces cannot be nested. Names that begin with `_` or `.` are never matched, and a path that
  asks for one fails the run. A path that matches a folder but none of the files in it also fails the run (`in/dt=*`, or
  `in/*.parquet` if one match is a folder): write `in/dt=*/*` to match the files. `in/*`, `./in/*` and the corresponding
  absolute path mean the same files, and a file that was ingested by one of them is ingested for all.
"""


def spec_page() -> str:
    """Return the page that lists every key of every kind of file."""
    lines = [_PREFACE]
    for kind, heading in _HEADINGS.items():
        schema = inlined(kind)
        lines += [f"## {heading}", "", schema["description"], "", *_table(schema)]
    table, project = inlined(Kind.TABLE)["properties"], inlined(Kind.PROJECT)["properties"]
    for name in _SHARED:
        schema = table.get(name) or project["defaults"]["properties"][name]
        lines += [f"## {name}", "", _parts(schema)["text"], "", *_table(schema)]
    return wrapped("\n".join(lines))


def diagnostics_page() -> str:
    """Return the page that explains every diagnostic code."""
    lines = [
        "# Diagnostics",
        "",
        "<!-- Written by `python -m tools.spec_reference`; edit project/diagnostics/codes.py instead. -->",
        "",
        "`parquetry validate` prints one line per finding: `file:line:column: CODE message`. This page explains",
        "each code and what to do. A warning stops nothing. To silence it, add an `allow` entry to",
        "parquetry.yml with its code, the table and a reason.",
        "",
    ]
    family = ""
    for code in CODES.values():
        if code.code[:3] != family:
            family = code.code[:3]
            lines += [f"## {_FAMILIES[family]}", ""]
        mark = " (warning)" if code.warning else ""
        lines += [
            f"### {code.code}",
            "",
            f"**{code.title}**{mark}. {code.explanation}",
            "",
            f"*{code.remedy}*",
            "",
        ]
    return wrapped("\n".join(lines))


def _table(schema: Mapping[str, Any]) -> list[str]:
    rows = [_row(*row) for row in _rows(schema, "")]
    return ["| key | values | default | meaning | Hudi |", "|---|---|---|---|---|", *rows, ""]


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield each key below a schema: its path, its schema, and whether it is required."""
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, child, name in required
        if name in _SHARED:
            continue
        yield from _rows(child, f"{path}.")
        yield from _rows(child.get("items", {}), f"{path}[].")
        values = child.get("additionalProperties")
        if isinstance(values, Mapping):
            yield from _rows(values, f"{path}.<name>.")


def _row(path: str, schema: Mapping[str, Any], required: bool) -> str:  # noqa: FBT001 - a row of a table
    parts = _parts(schema)
    name = path.rpartition(".")[2]
    shared = f"[see below](#{name})" if name in _SHARED else ""
    default = shared or parts["default"] or ("**required**" if required else "")
    cells = (_values(schema), default, parts["text"], parts["hudi"])
    escaped = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| `{path}` | {' | '.join(escaped)} |"


def _parts(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the text, the default and the Hudi settings of a key for the cells of its row."""
    parts = described(schema)
    settings = re.sub(
        r"hoodie\.[A-Za-z0-9_.]*[A-Za-z0-9_]", lambda name: f"`{name.group()}`", parts.hudi or ""
    )
    return {
        "text": parts.text,
        "default": parts.default or "",
        "hudi": "none" if parts.hudi == "" else settings,
    }


def _values(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    return f"`{schema['const']}`" if "const" in schema else str(schema["title"])


PAGES = {"spec.md": spec_page, "diagnostics.md": diagnostics_page}


def main(folder: Path = FOLDER) -> None:
    """Write the pages into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
