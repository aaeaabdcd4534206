"""Projects in Python, as the documentation shows them."""

from __future__ import annotations

import builtins
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import parquetry
import parquetry.errors
from parquetry.compiler import errors as compiler_errors
from parquetry.compiler.plan.model import Blocked
from parquetry.in_python import in_python, with_texts
from parquetry.message import Message, command, phrase, run
from parquetry.project.diagnostics.model import errors
from parquetry.runtime import errors as runtime_errors
from parquetry.runtime.clustering.plan.execution import ClusteringResult, UnpublishedGroup
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import StalePlanError, StaleTimelineError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.table import Table
from parquetry.text.html import html_table
from tests.support.project_folder import ProjectFolder
from tests.support.stores import CountingStore


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_load_plan_apply(folder):
    project = parquetry.load(folder.root, target="dev")
    assert (project.name, project.target) == ("shop", "dev")
    assert project.tables == {"orders": str(folder.table)}
    plan = project.plan()
    assert not plan.is_empty
    plan.apply()
    assert parquetry.load(folder.root).plan().is_empty
    with pytest.raises(StalePlanError):
        plan.apply()


def test_tables_are_left_out_and_savepoints_given_up(folder):
    assert parquetry.load(folder.root, exclude=["orders"]).tables == {}
    project = parquetry.load(folder.root)
    project.plan().apply()
    table = project.table("orders")
    saved = table.savepoint(comment="before")
    table.delete_savepoint(saved.instant)
    with pytest.raises(parquetry.InvalidDataError, match="the savepoints are none"):
        table.restore(saved.instant)


def test_a_saved_plan_is_the_one_that_the_command_reads(folder, tmp_path):
    plan = parquetry.load(folder.root).plan()
    plan.save(tmp_path / "plan.json")
    assert (
        json.loads((tmp_path / "plan.json").read_text())["plan_id"]
        == plan.plan_id
        == plan.to_json()["plan_id"]
    )


def test_an_invalid_project_raises_all_its_diagnostics(folder):
    folder.orders(record_key=["nothing"], ordering="nobody")
    with pytest.raises(parquetry.SpecError, match="record_key names the column 'nothing'") as caught:
        parquetry.load(folder.root)
    assert len(errors(caught.value.diagnostics)) == 2
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("lone", ["p=a", {"p": "a"}])
def test_one_partition_to_delete_is_not_taken_for_a_list_of_its_letters_or_columns(tmp_path, lone):
    columns = (
        parquetry.Column(name="id", type="string", nullable=False),
        parquetry.Column(name="p", type="string"),
    )
    spec = parquetry.TableSpec(name="t", columns=columns, record_key=("id",), partition_by=("p",))
    table = parquetry.create(tmp_path / "t", spec)
    with pytest.raises(parquetry.ParquetryError, match=r"expected a list of partitions, not "):
        table.delete_partition(lone)
    assert table.delete_partition([lone]).instant is None


def test_importing_parquetry_loads_nothing_heavy():
    program = "import sys, parquetry; sys.exit(any(m in sys.modules for m in ('yaml', 'jinja2', 'click', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_report_is_read_again_when_the_timeline_moved_beneath_it():
    calls = []

    @retry_stale
    def report(stale):
        calls.append(1)
        if len(calls) <= stale:
            raise StaleTimelineError("archived")
        return "done"

    assert report(2) == "done"
    calls.clear()
    with pytest.raises(StaleTimelineError):
        report(3)


def test_load_tells_in_words_for_python(folder, tmp_path):
    cases = [
        (
            lambda: parquetry.load(tmp_path / "nothing"),
            parquetry.SpecError,
            "give its folder to parquetry.load()",
        ),
        (lambda: parquetry.load(folder.root / "tables"), parquetry.SpecError, f"load {folder.root}"),
        (
            lambda: parquetry.load(folder.root, variables={"x": "1"}),
            parquetry.UndeclaredVariableError,
            "variables=",
        ),
        (
            lambda: parquetry.load(folder.root, target="nope"),
            parquetry.SpecError,
            "there is no target 'nope'",
        ),
        (
            lambda: parquetry.load(folder.root, select=["order"]),
            parquetry.SelectionError,
            "did you mean 'orders'",
        ),
        (lambda: parquetry.load(folder.root, select="orders"), parquetry.UsageError, "['orders']"),
        (lambda: parquetry.load(folder.root, target=3), parquetry.UsageError, "name of a target"),
        (lambda: parquetry.load(folder.root).table("orders"), parquetry.UnappliedError, "plan().apply()"),
        (lambda: parquetry.load(folder.root).run(only="all"), parquetry.UsageError, "'ingest' or 'services'"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind) as caught:
            call()
        assert words in str(caught.value)
        assert "--" not in str(caught.value)
        assert "`parquetry" not in str(caught.value)
        for found in getattr(caught.value, "diagnostics", ()):
            assert "--" not in found.message


def test_several_targets_without_a_choice_are_told_for_python(folder):
    project = folder.root / "parquetry.yml"
    text = project.read_text()
    project.write_text(
        text.replace("default_target", "# default_target").replace(
            "\n  dev:", "\n  other: {warehouse: ./o}\n  dev:"
        )
    )
    with pytest.raises(parquetry.SpecError, match=r"give target=") as caught:
        parquetry.load(folder.root)
    assert "--target" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (run("apply", "--target", "dev"), "call plan().apply() on the project"),
        (run("service", "clean", "TABLE"), "call Table.clean()"),
        (
            Message("roll it back with {command}", command=command("service", "rollback", "TABLE", "2026")),
            "roll it back with Table.rollback('2026')",
        ),
        (
            Message("or plan with {option}", option=phrase("--exclude", called="exclude= of load()")),
            "or plan with exclude= of load()",
        ),
        (
            Message("{command} releases it", command=command("unlock", "TABLE")),
            "`parquetry unlock TABLE` releases it",
        ),
        ("no table `parquetry run` with --target", "no table `parquetry run` with --target"),
    ],
)
def test_remedies_are_calls_where_python_has_one(text, words):
    assert in_python(text) == words


def test_results_have_texts_that_json_takes():
    value = Message("{command} frees {uri}", command=run("service", "clean", "t"), uri="/t")
    left = UnpublishedGroup(partition="p", files=1, reason=value)
    result = with_texts(ClusteringResult(instants=("1",), left_out=(left,), warnings=(value, "plain")))
    shown = "call Table.clean() frees /t"
    assert json.dumps(result.warnings) == json.dumps([shown, "plain"])
    assert (type(result.left_out[0].reason), result.left_out[0].reason) == (str, shown)
    commit = CommitResult(instant="1", action="commit", operation="upsert", retry_reasons=(value,))
    assert json.dumps(with_texts(commit).retry_reasons) == json.dumps([shown])


def small_table(tmp_path):
    columns = (parquetry.Column(name="id", type="string", nullable=False),)
    return parquetry.create(
        tmp_path / "t", parquetry.TableSpec(name="t", columns=columns, record_key=("id",))
    )


@pytest.mark.parametrize("wrong", ["upsrt", "UPSERT", "delete_partition", "merge"])
def test_a_batch_writer_knows_its_operations_at_once(tmp_path, wrong):
    said = {
        "upsrt": "did you mean 'upsert'",
        "UPSERT": "did you mean 'upsert'",
        "merge": "operations are upsert, ",
    }
    with pytest.raises(parquetry.UsageError, match=said.get(wrong, "did you mean 'delete'|insert")):
        small_table(tmp_path).batch_writer(wrong)


@pytest.mark.parametrize(
    "method", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"]
)
def test_rows_of_no_known_kind_are_refused_before_spark_starts(tmp_path, method):
    table = small_table(tmp_path)
    for rows in ([{"id": "a"}], {"id": ["a"]}, "a", None):
        with pytest.raises(TypeError, match="a Spark DataFrame, a pandas DataFrame, a pyarrow Table"):
            getattr(table, method)(rows)


def public_objects():
    """What the front door gives, with the public methods and properties of its classes."""
    for name in parquetry.__all__:
        found = getattr(parquetry, name)
        yield name, found
        if isinstance(found, type):
            for member, value in vars(found).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", value


def test_every_error_that_a_docstring_names_can_be_imported():
    named = {
        (place, error)
        for place, found in public_objects()
        for error in re.findall(r"\b[A-Z]\w*Error\b", getattr(found, "__doc__", None) or "")
    }
    assert {"InvalidDataError", "ConflictError", "StalePlanError"} <= {error for _, error in named}
    known = {*parquetry.__all__, *vars(builtins)}
    assert [(place, error) for place, error in sorted(named) if error not in known] == []


def test_every_error_of_tables_and_projects_is_public_twice_and_one_class():
    for module in (runtime_errors, compiler_errors):
        for name, found in vars(module).items():
            if isinstance(found, type) and issubclass(found, parquetry.ParquetryError):
                assert getattr(parquetry, name) is getattr(parquetry.errors, name) is found
    assert set(dir(parquetry.errors)) <= set(parquetry.__all__)
    with pytest.raises(AttributeError, match="no attribute 'NoSuchError'"):
        _ = parquetry.errors.NoSuchError


def test_what_is_printed_is_one_short_line(folder):
    project = parquetry.load(folder.root)
    plan = project.plan()
    said = repr(plan)
    assert said.startswith("Plan('shop', target='dev', plan_id='sha256:")
    assert said.endswith(": 1 create)")
    applied = plan.apply()
    table = project.table("orders")
    shown = (
        project,
        plan,
        plan.intent,
        applied,
        *applied.results,
        project.plan(),
        table,
        table.spec,
        table.inspect(),
        table.timeline(),
        table.clean(),
        table.archive(),
        project.run(only="services"),
    )
    for found in shown:
        assert "\n" not in repr(found)
        assert len(repr(found)) < 300, repr(found)
        if found is not project:
            assert found._repr_html_().startswith("<table><caption>")
    assert repr(project.plan()).endswith(": nothing to do)")
    assert repr(project).startswith("Project('shop', target='dev', ")


class _OfHtml(HTMLParser):
    """The texts of a page, and the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.elements = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_notebooks_show_tables_plans_and_results_as_tables(folder):
    project = parquetry.load(folder.root)
    plan = project.plan()
    assert _OfHtml(plan._repr_html_()).texts == [repr(plan), "table", "change", "what", "orders", "create"]
    applied = plan.apply()
    shown = _OfHtml(applied.results[0]._repr_html_())
    assert shown.texts[0] == type(applied.results[0]).__name__
    assert repr(applied.results[0]) == "{}({})".format(
        shown.texts[0], ", ".join(map("=".join, batched(shown.texts[1:])))
    )
    table = project.table("orders")
    assert _OfHtml(table._repr_html_()).texts[:7] == [
        *(f"orders: {table!r}", "column", "type", "role"),
        *("order_id", "bigint", "key"),
    ]
    shutil.rmtree(table.uri.removeprefix("file://"))
    assert _OfHtml(table._repr_html_()).texts[:2] == [repr(table), "error"]


def batched(items):
    return zip(items[::2], items[1::2], strict=True)


def test_what_notebooks_show_is_escaped(folder):
    bad = "<script>alert(1)</script>\x1b[2J"
    assert _OfHtml(html_table(bad, [(bad, bad)], header=(bad, bad))).elements == {
        *("table", "caption", "thead", "tr", "th", "td")
    }
    assert "\x1b" not in html_table(bad, [])
    blocked = Blocked(table=bad, location="", code="SC101", reason=bad, remedy="")
    plan = parquetry.load(folder.root).plan()
    document = replace(plan._plan, intent=replace(plan.intent, actions=(), blocked=(blocked,)))
    assert "<script" not in replace(plan, _plan=document)._repr_html_()
    assert "<script" not in replace(plan.intent, project=bad)._repr_html_()


def test_a_table_is_printed_without_a_request(folder, tmp_path):
    store = CountingStore(open_store(folder.root), tmp_path / "log")
    assert repr(Table(store)) == f"Table({store.uri!r})"
    assert store.calls() == ()


def test_a_bug_of_a_job_is_the_cause_of_what_run_raises(folder, monkeypatch):
    parquetry.load(folder.root).plan().apply()

    def broken(job, **_):
        raise RuntimeError("boom")

    monkeypatch.setattr("parquetry.compiler.jobs.launch.execute", broken)
    with pytest.raises(
        parquetry.UnexpectedError, match=r"a bug of parquetry \(RuntimeError: boom\)"
    ) as caught:
        parquetry.load(folder.root).run()
    assert isinstance(caught.value.__cause__, RuntimeError)
    result = parquetry.load(folder.root).run(check=False)
    assert result.failure is result.outcomes[0].error
