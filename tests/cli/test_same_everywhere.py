"""The intent of a plan is the same bytes wherever and however the same specs are planned."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from tests.support.command_script import parquetry
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder, columns_with

SPECS = {
    "parquetry.yml": PROJECT | {"defaults": {"owner": "shop", "retention": {"clean": {"keep_commits": 7}}}},
    "policies/small.yml": {
        "apiVersion": "parquetry/v1",
        "kind": "policy",
        "name": "small",
        "files": {"compression": "snappy"},
    },
    "tables/orders.yml": ORDERS,
    "tables/b/returns.yml": ORDERS | {"name": "returns", "policy": "small", "tags": ["z", "b", "a"]},
    "tables/ä/istanbul.yml": ORDERS | {"name": "istanbul", "description": "ı and İ, ß and ẞ."},
}
CHANGED = {
    "tables/orders.yml": ORDERS
    | {
        "description": "Every order.",
        "columns": columns_with(items={"type": "bigint"}, coupon={"type": "string"}),
        "sizing": {"max_file_size": "2MiB", "small_file_limit": "1MiB"},
    }
}


def write(root, specs):
    for path, document in specs.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
        (root / path).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A project of which one table was applied and has changed since; the others are new."""
    root = tmp_path_factory.mktemp("first") / "shop"
    ProjectFolder.create(root)
    applied = parquetry("apply", "-p", root, "--auto-approve")
    assert applied.returncode == 0, applied.stderr
    return write(root, SPECS | CHANGED)


def intent(root, **environment):
    """The intent in the saved plan, as it stands in the file."""
    done = parquetry("plan", "-p", root, "--out", root / "target/plan.json", **environment)
    assert done.returncode == 0, done.stderr
    document = json.loads((root / "target/plan.json").read_text(encoding="utf-8"))
    return document["plan_id"], json.dumps(document["intent"], ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def expected(checkout):
    found = intent(checkout)
    actions = json.loads(found[1])["actions"]
    assert [action["table"] for action in actions] == ["istanbul", "orders", "returns"]
    return found


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "1"},
        {"TZ": "America/St_Johns", "PYTHONHASHSEED": "2", "HOME": "/nonexistent", "COLUMNS": "20"},
        {"LC_ALL": "C", "LANG": "C", "TZ": "Pacific/Chatham"},
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "LANGUAGE": "tr", "PYTHONUTF8": "0"},
    ],
    ids=["east", "west", "c-locale", "turkish"],
)
def test_time_zone_locale_and_hash_seed(checkout, expected, environment):
    assert intent(checkout, **environment) == expected


def test_another_path_and_another_order_of_files(checkout, expected, tmp_path):
    there = tmp_path / "ein anderer Ort" / "clone"
    write(there, dict(reversed((SPECS | CHANGED).items())))
    shutil.copytree(checkout / "warehouse", there / "warehouse")
    assert intent(there) == expected


def test_comments_key_order_and_formatting(checkout, expected, tmp_path):
    there = tmp_path / "shop"
    for path, document in (SPECS | CHANGED).items():
        turned = dict(reversed(document.items()))
        text = f"# A comment.\n\n{json.dumps(turned, indent=7)}\n# The end.\n"
        write(there, {path: text if path != "tables/orders.yml" else yaml.safe_dump(turned, width=20)})
    shutil.copytree(checkout / "warehouse", there / "warehouse")
    assert intent(there) == expected
    assert parquetry("fmt", "-p", there).returncode == 0
    assert intent(there) == expected


def test_another_folder_of_a_spec_below_tables(checkout, expected, tmp_path):
    there = write(tmp_path / "shop", SPECS | CHANGED)
    shutil.copytree(checkout / "warehouse", there / "warehouse")
    (there / "tables/gold").mkdir()
    shutil.move(there / "tables/orders.yml", there / "tables/gold/orders.yml")
    assert intent(there) == expected


def test_a_value_that_would_be_recorded_makes_another_intent(checkout, expected, tmp_path):
    there = write(tmp_path / "shop", SPECS | CHANGED)
    shutil.copytree(checkout / "warehouse", there / "warehouse")
    write(there, {"policies/small.yml": SPECS["policies/small.yml"] | {"files": {"compression": "gzip"}}})
    found = intent(there)
    assert found[0] != expected[0]
    assert found[1] != expected[1]
