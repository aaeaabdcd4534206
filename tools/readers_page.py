"""The reference page of readers, written from the matrix: ``python -m tools.readers_page``.

A test checks that it is current.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from parquetry.project.readers.matrix import Matrix, MatrixCell, Reader, ReaderResult, matrix
from tools.wrap_markdown import wrapped

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "readers.md"

_PREFACE = """\
# Readers

<!-- Written by `make readers` and `python -m tools.readers_page` from project/readers/matrix.json. -->

This page shows what each reader makes of each kind of table. The tables are made by parquetry's own writer, in version
6 unless their name says otherwise, and the expected rows come from what was written. **wrong** means that the reader
returns other rows without an error. `make readers` runs them all again, and a test fails if a cell has changed.

A table that declares its `readers` is checked against this matrix: `validate` warns of settings with which one of them
is wrong (PQ713) or fails (PQ714), and `plan` warns before a change does so (SC603, SC604).

The readers of Delta and Iceberg read the metadata that `publish` writes. All their tables are published, but those of
the kinds `unpublished` and `publishing_stopped`.

```yaml fragment
readers: [hudi-1.2, clickhouse]      # of a table, or of a target for all its tables
```
"""


def readers_page(found: Matrix) -> str:
    """Return the page of a matrix."""
    return wrapped("\n".join([_PREFACE, *_kinds(found), *_results(found), *_details(found), *_cited(found)]))


def _kinds(found: Matrix) -> Iterator[str]:
    yield from ("## Tables", "", "| kind | what it is |", "|---|---|")
    yield from (f"| {kind} | {text} |" for kind, text in found.kinds.items())
    yield ""


def _results(found: Matrix) -> Iterator[str]:
    """Yield the matrix: kinds down, readers across in parts, so that a page holds them."""
    run = [reader for reader in found.readers.values() if reader.version is not None]
    yield from ("## Results", "", "| reader | name in `readers` | version | call |", "|---|---|---|---|")
    for reader in run:
        yield f"| {reader.title} | `{reader.name}` | {reader.version} | `{reader.call}` |"
    others = [reader for reader in run if reader.published_as is None]
    middle = (len(others) + 1) // 2
    published = [[reader for reader in run if reader.published_as == form] for form in ("delta", "iceberg")]
    for part in (others[:middle], others[middle:], *published):
        yield from ("", f"| kind | {' | '.join(f'`{reader.name}`' for reader in part)} |")
        yield "|---" * (len(part) + 1) + "|"
        for kind in found.kinds:
            yield f"| {kind} | {' | '.join(_shown(reader.cells[kind]) for reader in part)} |"
    yield ""


def _shown(cell: MatrixCell) -> str:
    if cell.result is ReaderResult.WRONG:
        return f"**wrong**: {cell.detail}"
    return cell.result.value


def _details(found: Matrix) -> Iterator[str]:
    yield from ("## What refusals say", "", "| reader | kind | message |", "|---|---|---|")
    for reader in found.readers.values():
        for kind, cell in reader.cells.items():
            if reader.version is not None and cell.result is ReaderResult.REFUSED:
                yield f"| `{reader.name}` | {kind} | {_escaped(cell.detail or '')} |"
    yield ""


def _cited(found: Matrix) -> Iterator[str]:
    yield from (
        "## Readers that were not run",
        "",
        "These need a service or a cluster. Their cells come from the source beside them; a kind without a source is",
        "unknown, and nothing warns of it.",
        "",
        "| reader | name in `readers` | kind | result |",
        "|---|---|---|---|",
    )
    for reader in found.readers.values():
        if reader.version is None:
            yield from _cited_cells(reader)


def _cited_cells(reader: Reader) -> Iterator[str]:
    for kind, cell in reader.cells.items():
        yield f"| {reader.title} | `{reader.name}` | {kind} | {cell.result.value}: [{cell.detail}]({cell.source}) |"


def _escaped(text: str) -> str:
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def write(found: Matrix) -> None:
    """Write the page of a matrix."""
    PAGE.write_text(readers_page(found), encoding="utf-8")


if __name__ == "__main__":
    write(matrix())
