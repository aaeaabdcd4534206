"""Notebooks of the documentation: their cells executed, and their pages on the site."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_NO_VALUE = object()


def run(notebook: Mapping[str, Any], *, stands_for: Mapping[str, str]) -> dict[str, Any]:
    """Return the notebook with the outputs that its cells have here; print nothing of them.

    The value of a cell is that of its last expression, as text and as the HTML that the value has for notebooks.

    Args:
        notebook: The notebook, whose code cells contain plain Python.
        stands_for: Texts of this run, such as paths, and what stands for them in outputs.

    """
    names: dict[str, Any] = {}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        count += 1
        value = _value("".join(cell["source"]), names)
        outputs = [] if value is _NO_VALUE else [_output(value, count, stands_for)]
        cells.append({**cell, "execution_count": count, "outputs": outputs})
    return {**notebook, "cells": cells}


def written(notebook: Mapping[str, Any]) -> str:
    """Return the text of the file of a notebook."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def page(path: Path) -> str:
    """Return the notebook in a file as Markdown: its texts, its code, and the outputs that it has stored."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _value(source: str, names: dict[str, Any]) -> Any:
    """Execute a cell, and return the value of its last expression, if any."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body=body, type_ignores=[]), "<cell>", "exec"), names)
    if not isinstance(last, ast.Expr):
        return _NO_VALUE
    value = eval(compile(ast.Expression(body=last.value), "<cell>", "eval"), names)
    return _NO_VALUE if value is None else value


def _output(value: object, count: int, stands_for: Mapping[str, str]) -> dict[str, Any]:
    html = getattr(value, "_repr_html_", None)
    texts = {"text/html": html()} if html is not None else {}
    texts["text/plain"] = repr(value)
    for found, shown in stands_for.items():
        texts = {kind: text.replace(found, shown) for kind, text in texts.items()}
    return {
        "output_type": "execute_result",
        "execution_count": count,
        "metadata": {},
        "data": {kind: text.splitlines(keepends=True) for kind, text in texts.items()},
    }


def _parts(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = {kind: "".join(lines) for kind, lines in output["data"].items()}
        # A block of HTML in Markdown ends at an empty line.
        html = "\n".join(line for line in data.get("text/html", "").splitlines() if line.strip())
        yield html or f"```text\n{data['text/plain']}\n```"
