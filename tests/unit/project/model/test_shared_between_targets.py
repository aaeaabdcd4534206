"""One table belongs to one target: what is shared by an absolute location, a warehouse or an adoption."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from parquetry import project
from parquetry.cli.main import command_line
from parquetry.runtime.errors import ForeignTableError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.project_folder import ORDERS, ProjectFolder
from tests.support.small_table import SmallTable, make_table, view_rows

OTHER_SIZES = {"sizing": {"max_file_size": "200MiB"}}
AT_PROD = (
    ("plan",),
    ("apply", "--auto-approve"),
    ("run",),
    ("inspect", "orders"),
    ("timeline", "orders"),
    ("service", "clean", "orders"),
    ("drift",),
    ("doctor",),
)


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    targets(folder, dev="./dev", prod="./prod")
    return folder


def targets(folder, **warehouses):
    declared = {name: {"warehouse": place} for name, place in warehouses.items()}
    if "prod" in declared:
        declared["prod"]["overrides"] = OTHER_SIZES
    folder.project(targets=declared, default_target=next(iter(declared)))


def answer(folder, *arguments, target="prod"):
    chosen = () if target is None else ("-t", target)
    return CliRunner().invoke(command_line, [*arguments, "-p", str(folder.root), *chosen])


def planned(folder, target):
    done = answer(folder, "plan", "--format", "json", target=target)
    assert done.stdout, done.stderr
    intent = json.loads(done.stdout)["intent"]
    actions = [(action["code"], action["location"]) for action in intent["actions"]]
    return actions, [blocked["code"] for blocked in intent["blocked"]]


def content(table):
    return {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}


def shared_by_location(folder, place):
    folder.orders(location=str(place))


def shared_by_mapping(folder, place):
    folder.orders(location={"dev": str(place), "prod": str(place)})


def shared_by_variable(folder, place):
    folder.orders(location="{{ var('place') }}")
    declared = yaml.safe_load((folder.root / "parquetry.yml").read_text())
    folder.write("parquetry.yml", declared | {"vars": {"place": str(place)}})


def shared_by_warehouse(folder, place):
    targets(folder, dev=str(place.parent), prod=str(place.parent))


@pytest.mark.parametrize(
    "share", [shared_by_location, shared_by_mapping, shared_by_variable, shared_by_warehouse]
)
def test_a_table_that_dev_has_applied_is_refused_at_prod(folder, tmp_path, share):
    place = tmp_path / "lake/orders"
    share(folder, place)
    assert answer(folder, "apply", "--auto-approve", target="dev").exit_code == 0
    assert read_applied(open_store(place)).ref.target == "dev"
    before = content(place)
    assert planned(folder, "prod") == ([], ["SC504"])
    for command in AT_PROD:
        done = answer(folder, *command)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.exit_code == 1, (command, said)
        assert "SC504" in said, command
        assert "is applied for target 'dev', not 'prod'" in said, command
    assert content(place) == before
    assert planned(folder, "dev") == ([], [])
    assert answer(folder, "inspect", "orders", target="dev").exit_code == 0


def test_what_dev_adopts_is_another_table_at_prod(folder, tmp_path):
    (folder.root / "tables/orders.yml").unlink()
    make_table(tmp_path / "elsewhere/small").store.delete_folder(".hoodie/.parquetry")
    adopted = answer(folder, "adopt", str(tmp_path / "elsewhere/small"), target="dev")
    assert adopted.exit_code == 0, adopted.stderr
    declared = yaml.safe_load((folder.root / "tables/small.yml").read_text())
    assert declared["location"] == {"dev": str(tmp_path / "elsewhere/small")}
    assert planned(folder, "dev") == ([], [])
    assert planned(folder, "prod") == ([("SC001", "prod/small")], [])
    assert answer(folder, "adopt", str(tmp_path / "elsewhere/small"), "--name", "again").exit_code == 1
    assert answer(folder, "fmt", "--check", target=None).exit_code == 0


def test_the_table_of_another_target_is_not_forgotten(folder):
    targets(folder, dev="./lake", prod="./lake")
    assert answer(folder, "apply", "--auto-approve", target="dev").exit_code == 0
    (folder.root / "tables/orders.yml").unlink()
    assert planned(folder, "prod") == ([], [])
    assert planned(folder, "dev") == ([("SC002", "lake/orders")], [])


def test_a_target_that_was_renamed_takes_its_tables_along(folder):
    assert answer(folder, "apply", "--auto-approve", target="dev").exit_code == 0
    targets(folder, local="./dev", prod="./prod")
    refused = answer(folder, "run", target="local")
    assert (refused.exit_code, "SC504" in refused.stderr) == (1, True)
    plan = json.loads(answer(folder, "plan", "--format", "json", target="local").stdout)
    (action,) = plan["intent"]["actions"]
    assert [(c["path"], c["old"], c["new"], c["code"]) for c in action["changes"]] == [
        ("target", "dev", "local", "SC101")
    ]
    assert answer(folder, "apply", "--auto-approve", target="local").exit_code == 0
    ref = read_applied(open_store(folder.root / "dev/orders")).ref
    assert (ref.number, ref.target) == (2, "local")
    assert planned(folder, "local") == ([], [])
    assert answer(folder, "run", target="local").exit_code == 0


def test_a_location_by_target_comes_from_its_line(folder):
    lines = ["location:", "  prod: /lake/orders", "  dev: here"]
    text = (folder.root / "tables/orders.yml").read_text()
    (folder.root / "tables/orders.yml").write_text(text + "\n".join(lines) + "\n")
    for target, place in (("dev", str(folder.root / "dev/here")), ("prod", "/lake/orders")):
        found = project.load(folder.root, target=target, environment={})
        assert [table.location for table in found.project.tables] == [place]
    explained = json.loads(answer(folder, "explain", "orders.location", "--format", "json").stdout)
    assert "/lake/orders" in json.dumps(explained)
    assert f":{len(text.splitlines()) + 2}" in answer(folder, "explain", "orders.location").stdout


def findings(folder):
    found = project.load(folder.root, environment={}).diagnostics
    return [(one.code, one.file) for one in found if one.code.startswith("PQ3")]


def test_a_location_for_a_target_that_there_is_not_is_an_error(folder):
    folder.orders(location={"staging": "/lake/orders"})
    assert findings(folder) == [("PQ305", "tables/orders.yml")]


def test_one_absolute_location_for_all_targets_is_a_warning(folder):
    told = [("PQ310", "tables/orders.yml")]
    folder.orders(location="/lake/orders")
    assert findings(folder) == told
    assert answer(folder, "validate", target=None).stdout.count("PQ310") == 1
    folder.orders(location={"dev": "/lake/orders", "prod": "/lake/orders"})
    assert findings(folder) == told
    for fine in ("orders", "/lake/{{ target.name }}/orders", {"dev": "/lake/orders"}):
        folder.orders(location=fine)
        assert findings(folder) == []
    folder.orders(location="/lake/orders")
    targets(folder, dev="./dev")
    assert findings(folder) == []


def test_a_write_is_refused_when_another_target_was_applied_meanwhile(tmp_path):
    table = make_table(tmp_path / "t")
    mine = SmallTable(table.store, owner=TableOwner(project="tests", target="dev"))
    mine.upsert({"a": (1, "x")})
    spec = mine.handle.spec

    def apply(_):
        write_applied(table.store, spec, number=2, target="prod")

    mine.before_publish = apply
    with pytest.raises(ForeignTableError, match="SC504"):
        mine.upsert({"b": (2, "x")})
    assert view_rows(tmp_path / "t") == {"a": (1, "x")}


def test_a_spec_that_says_nothing_of_targets_is_as_it_was(folder):
    assert "location" not in ORDERS
    assert planned(folder, "dev") == ([("SC001", "dev/orders")], [])
    assert planned(folder, "prod") == ([("SC001", "prod/orders")], [])
