"""The notebook of the documentation, executed: its cells have the outputs that it shows."""

from __future__ import annotations

import json

import pytest

from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.support.arrow_writer import ArrowWriter
from tests.support.repository import ROOT
from tools import notebooks

NOTEBOOK = ROOT / "docs/notebooks/read.ipynb"


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """The table that the notebook reads, in the current folder."""
    kinds = {"city": "string", "amount": "double"}
    columns = (
        Column(name="order_id", type="bigint", nullable=False),
        *(Column(name=name, type=kind) for name, kind in kinds.items()),
        Column(name="id", type="string", nullable=False),
    )
    spec = TableSpec(name="orders", columns=columns, record_key=("id",))
    table = ArrowWriter(tmp_path / "lake" / "orders", spec)
    cities = ("Oslo", "Bergen", "Rome")
    table.insert(
        {"id": f"k{n}", "order_id": n, "city": cities[n % 3], "amount": 25.5 * n} for n in range(1, 10)
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_notebook_shows_what_its_cells_return(lake, request):
    stored = NOTEBOOK.read_text(encoding="utf-8")
    found = notebooks.written(notebooks.run(json.loads(stored), stands_for={str(lake): "/data"}))
    if request.config.getoption("--update-golden"):
        NOTEBOOK.write_text(found, encoding="utf-8")
    assert found == stored


def test_the_page_has_the_text_the_code_and_the_outputs():
    text = notebooks.page(NOTEBOOK)
    assert text.startswith("# ")
    assert "```python\nimport parquetry\n" in text
    assert "<table><caption>orders: Table(" in text
    assert "```text\n" in text
    html = text[text.index("<table>") :]
    assert "\n\n" not in html[: html.index("</table>")]
