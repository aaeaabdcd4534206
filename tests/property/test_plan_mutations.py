"""Saved plans that were changed, with digests that fit: a plan or a refusal comes out, never anything else."""

from __future__ import annotations

import copy
import json
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import canonical_json, digest_of
from tests.support.effort import examples
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with

WEIRD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**70,
        0.5,
        "",
        "\ud800",
        float("nan"),
        float("inf"),
        10**400,
        "x" * 200,
        "\x00",
        "a.b.c",
        [],
        {},
        [None],
        {"a": 1},
        "breaking",
        "sha256:0",
    ]
)


MOST_SECONDS = 2
CORPUS = sorted((Path(__file__).parent / "corpus").glob("plan-*.json"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A project whose plan has an action of every kind that needs no Spark, and a blocked table."""
    from parquetry.compiler.plan.apply import apply_plan

    folder = ProjectFolder.create(tmp_path_factory.mktemp("plans") / "shop")
    for name in ("old", "other"):
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    (folder.root / "tables/old.yml").unlink()
    folder.write("tables/new.yml", ORDERS | {"name": "new"})
    folder.write(
        "tables/other.yml",
        ORDERS | {"name": "other", "record_key": ["city"], "columns": columns_with(city={"nullable": False})},
    )
    folder.orders(columns=columns_with(note={"type": "string"}))
    folder.project(allow=[{"code": "SC310", "table": "orders", "reason": "no more"}])
    return folder


@pytest.fixture(scope="module")
def document(folder):
    return json.loads(encode(plan_workspace(folder.workspace(), now_ms=0, due=True)))


def places(value, path=()):
    """The path of every value within a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def mutated(document, place, value, how):
    changed = copy.deepcopy(document)
    holder = changed
    for step in place[:-1]:
        holder = holder[step]
    if how == "replace":
        holder[place[-1]] = value
    elif how == "drop":
        del holder[place[-1]]
    elif isinstance(holder, dict):
        holder["more"] = value
    else:
        holder.append(value)
    intent = changed.get("intent")
    if isinstance(intent, dict):
        changed["plan_id"] = digest_or_none({key: v for key, v in intent.items() if key != "git_commit"})
    changed.pop("digest", None)
    return changed


@st.composite
def mutated_values(draw, document):
    """A plan with one value replaced, dropped or added, and digests that fit."""
    place = draw(st.sampled_from([path for path in places(document) if path and path[0] != "digest"]))
    changed = mutated(document, place, draw(WEIRD), draw(st.sampled_from(["replace", "drop", "add"])))
    return json.dumps(changed | {"digest": digest_or_none(changed)}).encode()


def digest_or_none(value):
    """None for what has no canonical JSON: a number that is not finite, half of a surrogate pair."""
    try:
        return digest_of(value)
    except ValueError:
        return None


@st.composite
def mutated_bytes(draw, document):
    """A plan's file with some of its bytes replaced, cut or doubled."""
    content = canonical_json(document).encode()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.sampled_from([0, 1, 2, 30, 3000]))
        content = (
            content[:start] + draw(st.binary(max_size=4) | st.just(content[start:end] * 2)) + content[end:]
        )
    return content


def check(content):
    """A plan that every view shows, or a refusal; no hang (processor time, so that load is no failure)."""
    started = time.process_time()
    try:
        plan = decode(content, name="plan.json")
    except StalePlanError:
        plan = None
    if plan is not None:
        assert PlanView().text(plan, Paint(enabled=False))
        assert len(render_markdown(plan, max_bytes=60_000).encode()) <= 60_000
        assert render_html(plan)
        assert render_github(plan)
    assert time.process_time() - started < MOST_SECONDS
    return plan


def many(count):
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


@many(examples(300))
@given(data=st.data())
def test_a_changed_plan_is_read_and_shown_or_refused(document, data):
    check(data.draw(mutated_values(document)))


@many(examples(100))
@given(data=st.data())
def test_changed_bytes_of_a_plan_are_shown_or_refused(document, data):
    check(data.draw(mutated_bytes(document)))


@pytest.mark.long
@many(20_000)
@given(data=st.data())
def test_twenty_thousand_changed_plans_are_shown_or_refused(document, data):
    check(data.draw(st.one_of(mutated_values(document), mutated_bytes(document))))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_kept_plans_are_shown_or_refused(path):
    """Mutations that were found to end in different ways, one for each."""
    check(path.read_bytes())


def test_mutated_plans_are_kept():
    assert len(CORPUS) >= 40


def files_of(root):
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@many(25)
@given(data=st.data())
def test_the_commands_refuse_a_changed_plan_and_write_nothing(folder, document, data):
    content = data.draw(mutated_bytes(document))
    assume(not same_json(content, document))
    before = files_of(folder.root)
    with scratch(content) as file:
        for command in (("show", file), ("show", file, "--format", "markdown"), ("apply", file)):
            arguments = [*command, "--project", str(folder.root)] if command[0] == "apply" else [*command]
            done = CliRunner().invoke(command_line, arguments)
            assert (done.exit_code, "Traceback" in done.output) == (4, False), done.output
    assert files_of(folder.root) == before


def same_json(content, document):
    try:
        return json.loads(content) == document
    except ValueError:
        return False


@contextmanager
def scratch(content):
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "plan.json"
        file.write_bytes(content)
        yield str(file)


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(StalePlanError):
        decode(text, name="plan.json")


@pytest.mark.parametrize("depth", [100, 900, 990, 5_000, 100_000])
def test_a_deeply_nested_document_is_refused(document, depth):
    nested = "[" * depth + "]" * depth
    for text in ("[" * depth, nested, canonical_json(document)[:-1] + f', "more": {nested}}}'):
        with pytest.raises(StalePlanError):
            decode(text, name="plan.json")
