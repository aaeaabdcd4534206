"""The strategies in docs/how-to/cluster.md work as they stand there."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from parquetry.runtime.clustering.rewrite.order import row_order
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, PLAN_STRATEGIES
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import FIRST, SECOND, Incoming, bucket, context, read, slice_of, write
from tests.support.clustering_model import MIB, file, policy, situation
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "how-to" / "cluster.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
POLICY = ROOT / "project" / "schemas" / "policy.json"


def block(language, about):
    """The one block of that language that holds the words."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (one,) = [content for content in found if about in content]
    return one


def declared_points(about):
    """What a package with that block in its pyproject.toml makes known."""
    declared = tomllib.loads(block("toml", about))["project"]["entry-points"]
    points = [
        EntryPoint(name=name, value=value, group=group)
        for group, entries in declared.items()
        for name, value in entries.items()
    ]
    return lambda *, group: [point for point in points if point.group == group]


@pytest.mark.parametrize(
    ("section", "known"), [("plan", PLAN_STRATEGIES.built_in), ("execution", EXECUTION_STRATEGIES.built_in)]
)
def test_every_strategy_is_in_the_guide_the_schema_and_the_glossary(section, known):
    key = f"`{section}.strategy`"
    table = PAGE.read_text().partition(f"| {key} |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(known)
    clustering = json.loads(POLICY.read_text())["$defs"]["clustering"]["properties"]
    described = clustering[section]["properties"]["strategy"]
    term = GLOSSARY.read_text().partition(f"({key})")[2].partition("\n- ")[0]
    for text in (described["title"], described["description"], term):
        assert [name for name in known if not re.search(rf"\b{name}\b", text)] == []


def test_a_strategy_of_ones_own_is_a_function_and_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "crowded.py").write_text(block("python", "crowded"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plug_ins, "entry_points", declared_points("crowded"))
    spec = policy("crowded", columns=())
    few = [file(f"f{n}", 50 * MIB, partition="few") for n in range(4)]
    many = [file(f"m{n}", 10 * MIB, partition="many") for n in range(9)]
    (group,) = compute_debt(spec, [*few, *many], situation()).groups
    assert group.partition == "many"
    assert set(group.reasons.values()) == {"crowded"}
    assert not compute_debt(spec, [replace(one, size_bytes=110 * MIB) for one in many], situation()).groups
    sys.modules.pop("crowded")


def test_an_execution_strategy_of_ones_own_is_one_too(tmp_path, monkeypatch):
    (tmp_path / "by_length.py").write_text(block("python", "by_length"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plug_ins, "entry_points", declared_points("by_length"))
    columns = (Column(name="word", type="string"),)
    ctx = context(tmp_path, columns, instant=FIRST)
    words = ["ccc", "a", "", "dddd", "bb", "a"]
    files = write(
        ctx, bucket(ctx), [Incoming(key=f"k{n}", values={"word": w}) for n, w in enumerate(words)]
    ).files
    work = GroupWork(
        index=0,
        partition="p=1",
        slices=tuple(slice_of(one) for one in files),
        target_bytes=MIB,
        order=row_order(ExecutionPolicy(strategy="by_length", columns=("word",))),
    )
    after = context(tmp_path, columns, instant=SECOND)
    assert read(after, rewrite_group(after, work)).column("word").to_pylist() == sorted(words, key=len)
    sys.modules.pop("by_length")
