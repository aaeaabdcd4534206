"""Saved plans that were changed, with digests that fit: a plan or a refusal comes out, never anything else."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry.cli.output import Paint
from parquetry.cli.plan_github import render_github
from parquetry.cli.plan_html import render_html
from parquetry.cli.plan_markdown import render_markdown
from parquetry.cli.plan_view import PlanView
from parquetry.compiler.plan_codec import decode, encode
from parquetry.compiler.planning import plan_workspace
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.job import canonical_json, digest_of
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


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """A plan with an action of every kind that needs no Spark, and a blocked table."""
    from parquetry.compiler.applying import apply_plan

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
        changed["plan_id"] = digest_of({key: v for key, v in intent.items() if key != "git_commit"})
    changed.pop("digest", None)
    return changed


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_plan_is_read_and_shown_or_refused(document, data):
    place = data.draw(st.sampled_from([path for path in places(document) if path and path[0] != "digest"]))
    how = data.draw(st.sampled_from(["replace", "drop", "add"]))
    changed = mutated(document, place, data.draw(WEIRD), how)
    text = canonical_json(changed | {"digest": digest_of(changed)})
    try:
        plan = decode(text, name="plan.json")
    except StalePlanError:
        return
    assert PlanView().text(plan, Paint(enabled=False))
    assert len(render_markdown(plan, max_bytes=60_000).encode()) <= 60_000
    assert render_html(plan)
    assert render_github(plan)


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(StalePlanError):
        decode(text, name="plan.json")


def test_a_deeply_nested_document_is_refused():
    with pytest.raises(StalePlanError):
        decode("[" * 100_000, name="plan.json")
