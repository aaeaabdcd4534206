"""What meta columns cost a table, in a plan that leaves them empty and beside a suggested layout."""

from __future__ import annotations

import json
from html import unescape

import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.candidates import SuggestionView
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.evidence.model import MetaColumnFigures
from parquetry.compiler.evidence.money import PlanPrices
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import plan_json
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.suggestion import suggest
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.column_bytes import MOST_FOOTERS, column_bytes
from parquetry.runtime.table.handle import open_table
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import CountingStore

NOW = 1_800_000_000_000
PRICES = {
    "currency": "EUR",
    "storage_gib_month": 20_000,
    "read_requests_million": 0,
    "write_requests_million": 0,
    "core_hour": 0,
    "scanned_tib": 0,
}
QUERIES = [{"name": "low", "where": "v < 3"}]
KEYS = {*META_COLUMNS} - {"_hoodie_commit_time"}


@pytest.fixture
def folder(tmp_path):
    """A project with ``events`` in 4 small files."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    declare(folder)
    apply(folder)
    events = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for number in range(4):
        events.insert({f"k{number}-{i}": (i, "a") for i in range(50)})
    return folder


def declare(folder, **changes):
    folder.write("tables/events.yml", EVENTS | {"queries": QUERIES} | changes)


def planned(folder):
    return plan_workspace(folder.workspace(), now_ms=NOW)


def apply(folder):
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None


def stored_bytes(folder):
    """The bytes of the meta columns except the commit times, by the footers of all files."""
    found = 0
    for file in (folder.root / "warehouse/events").glob("p=*/*.parquet"):
        group = pq.read_metadata(file).row_group(0)
        chunks = map(group.column, range(group.num_columns))
        found += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in KEYS)
    return found


def all_formats(plan):
    Draft202012Validator(answer_schema("plan")).validate(json.loads(json.dumps(plan_json(plan))))
    return (
        PlanView().text(plan, Paint(enabled=False)),
        render_markdown(plan, max_bytes=60_000),
        unescape(render_html(plan)),
    )


def test_a_plan_says_what_they_take_in_bytes_and_money(folder):
    declare(folder, files={"meta_columns": "commit_time"})
    plan = planned(folder)
    assert plan.evidence.figures["events"].meta_columns == MetaColumnFigures(size_bytes=stored_bytes(folder))
    for shown in map(" ".join, map(str.split, all_formats(plan))):
        assert "meta columns that stay empty take" in shown
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | {"prices": PRICES}})
    plan = planned(folder)
    found = plan.evidence.figures["events"].meta_columns.monthly
    assert found.low_micros <= 20_000 * 1_000_000 * stored_bytes(folder) / 2**30 <= found.high_micros
    for shown in map(" ".join, map(str.split, all_formats(plan))):
        assert "EUR a month of the files, until these are rewritten" in shown


def test_a_plan_that_leaves_them_says_nothing(folder):
    declare(folder, sizing={"max_file_size": "1GB"})
    plan = planned(folder)
    assert plan.evidence.figures["events"].meta_columns is None
    assert not any("meta columns" in shown for shown in all_formats(plan))


def test_a_suggestion_says_what_all_but_the_commit_times_take(folder):
    store = open_store(folder.root / "warehouse/events")
    prices = PlanPrices(
        currency="EUR",
        storage_gib_month="20000",
        read_requests_million="0",
        write_requests_million="0",
        core_hour="0",
        scanned_tib="0",
    )
    found = suggest(store, prices=prices)
    assert found.meta_columns.size_bytes == stored_bytes(folder)
    answer = SuggestionView(currency="EUR").json(found)
    Draft202012Validator(answer_schema("simulate-clustering")).validate(answer)
    assert answer["meta_columns"]["size_bytes"] == stored_bytes(folder)
    shown = " ".join(SuggestionView(currency="EUR").text(found, Paint(enabled=False)).split())
    assert "Hudi's meta columns take" in shown
    assert "EUR a month of the files" in shown
    declare(folder, files={"meta_columns": "commit_time"})
    apply(folder)
    found = suggest(store)
    assert found.meta_columns is None
    assert "meta_columns" not in SuggestionView().json(found)


def test_few_footers_stand_for_many_files(folder, tmp_path):
    handle = open_table(CountingStore(open_store(folder.root / "warehouse/events"), tmp_path / "calls"))
    (file, *_) = handle.view(handle.timeline()).all_slices()
    one = column_bytes(handle.store, [file], KEYS)
    before = len([*handle.store.calls()])
    many: list[FileSlice] = [file] * 1000
    assert column_bytes(handle.store, many, KEYS) == 1000 * one
    assert len([*handle.store.calls()]) - before <= MOST_FOOTERS
    assert column_bytes(handle.store, [], KEYS) == 0


def test_a_table_without_a_record_key_needs_its_meta_columns(folder):
    keyless = {key: value for key, value in EVENTS.items() if key != "record_key"}
    folder.write("tables/keyless.yml", keyless | {"name": "keyless", "queries": QUERIES})
    apply(folder)
    store = open_store(folder.root / "warehouse/keyless")
    SmallTable(store, timing=FAST).insert({f"k{number}": (number, "a") for number in range(50)})
    assert suggest(store).meta_columns is None
