"""The plan strategy in docs/how-to/cluster.md works as it stands there."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

from parquetry.runtime.layout import plan_strategies
from parquetry.runtime.layout.clustering import debt
from tests.support.clustering_model import MIB, file, policy, situation

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return found


def test_a_strategy_of_ones_own_is_a_function_and_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "crowded.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    declared = tomllib.loads(block("toml"))["project"]["entry-points"]
    points = [
        EntryPoint(name=name, value=value, group=group)
        for group, entries in declared.items()
        for name, value in entries.items()
    ]
    monkeypatch.setattr(
        plan_strategies, "entry_points", lambda *, group: [point for point in points if point.group == group]
    )
    spec = policy("crowded", columns=())
    few = [file(f"f{n}", 50 * MIB, partition="few") for n in range(4)]
    many = [file(f"m{n}", 10 * MIB, partition="many") for n in range(9)]
    (group,) = debt(spec, [*few, *many], situation()).groups
    assert group.partition == "many"
    assert set(group.reasons.values()) == {"crowded"}
    assert not debt(spec, [replace(one, size_bytes=110 * MIB) for one in many], situation()).groups
    sys.modules.pop("crowded")
