"""The same project gives the same plan, byte for byte, wherever and however it is planned."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from parquetry.runtime.spec.codec import canonical_json
from tests.support.command_script import parquetry
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with


@pytest.fixture
def folder(tmp_path):
    """Tables that are applied and changed, and one that is new."""
    folder = ProjectFolder.create(tmp_path / "shop")
    for name in ("archive", "zoo"):
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name, "tags": ["b", "a"]})
    done = parquetry("apply", "--auto-approve", cwd=folder.root)
    assert done.returncode == 0, done.stderr
    folder.orders(columns=columns_with(note={"type": "string"}, items={"type": "bigint"}), owner="Müller")
    folder.write("tables/archive.yml", ORDERS | {"name": "archive", "tags": ["a", "b"], "owner": "x"})
    folder.write("tables/new.yml", ORDERS | {"name": "new"})
    folder.project(vars={"a": 1, "b": 2})
    return folder


def planned(root, *arguments, **environment):
    """The canonical intent, and the id."""
    done = parquetry("plan", "--format", "json", *arguments, cwd=root, **environment)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return canonical_json(document["intent"]), document["plan_id"]


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Pacific/Kiritimati"},
        {"TZ": "America/New_York", "LC_ALL": "C"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2", "HOME": "/nonexistent", "COLUMNS": "20"},
    ],
    ids="-".join,
)
def test_of_time_zone_locale_and_hashing(folder, environment):
    assert planned(folder.root, **environment) == planned(folder.root)


def test_of_the_checkouts_place_and_the_order_of_its_files(folder, tmp_path):
    here = planned(folder.root)
    other = tmp_path / "somewhere else" / "ünder"
    other.mkdir(parents=True)
    files = sorted(path for path in folder.root.rglob("*") if path.is_file())
    # Written in another order, so that a listing gives them in another one.
    for path in reversed(files):
        copy = other / path.relative_to(folder.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    assert planned(other) == here
    assert planned(tmp_path, "--project", str(other)) == here


def test_of_comments_key_order_and_formatting(folder):
    here = planned(folder.root)
    for path in (*folder.root.glob("tables/*.yml"), folder.root / "parquetry.yml"):
        document = yaml.safe_load(path.read_text())
        turned = dict(reversed(document.items()))
        text = yaml.safe_dump(turned, sort_keys=False, default_flow_style=None, width=40, allow_unicode=True)
        path.write_text(f"# Nobody reads this.\n\n{text}\n# Nor that.\n", encoding="utf-8")
    assert planned(folder.root) == here


def test_of_where_a_spec_stands_below_tables(folder):
    here = planned(folder.root)
    (folder.root / "tables/gold").mkdir()
    shutil.move(folder.root / "tables/orders.yml", folder.root / "tables/gold/orders.yml")
    assert planned(folder.root) == here


def test_and_what_is_recorded_tells_plans_apart(folder):
    here = planned(folder.root)
    folder.write("tables/new.yml", ORDERS | {"name": "new", "description": "Another one."})
    there = planned(folder.root)
    assert there[0] != here[0]
    assert there[1] != here[1]
