"""A machine without the packages of the extras: every command names the extra that is missing."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from parquetry.compiler.reports.doctor import _EXTRAS
from tests.support.command_script import parquetry
from tests.support.project_folder import ORDERS, ProjectFolder
from tests.support.repository import ROOT

BLOCKER = """
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocker())
"""
REMEDY = "is not installed, which S3 needs; run `pip install s3fs`"
ON_S3 = [
    ("plan",),
    ("plan", "--due"),
    ("apply", "--auto-approve"),
    ("run",),
    ("run", "--only", "services"),
    ("drift",),
    ("inspect", "orders"),
    ("head", "orders"),
    ("timeline", "orders"),
    ("simulate", "sizing", "orders", "--inserts", "5"),
    ("simulate", "clustering", "orders", "--suggest"),
    *(("service", verb, "orders") for verb in ("clean", "archive", "savepoint", "cluster")),
    ("service", "rollback", "orders", "20260101000000000", "--auto-approve"),
    ("service", "restore", "orders", "20260101000000000", "--auto-approve"),
    ("service", "purge", "orders", "--where", "id = 1", "--auto-approve"),
    ("unlock", "orders"),
    ("unlock", "--list"),
    ("ls", "--select", "state:changed"),
    ("adopt", "s3://bucket/other"),
    ("inspect", "s3://bucket/other"),
]


@pytest.fixture
def blocked(tmp_path):
    """A function that gives the environment in which these packages cannot be imported."""

    def environment(*packages):
        folder = tmp_path / "blocked"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(BLOCKER.format(blocked=set(packages)))
        return {"PYTHONPATH": str(folder)}

    return environment


@pytest.fixture
def shop(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_every_command_on_s3_names_the_extra(shop, blocked):
    shop.project(targets={"dev": {"warehouse": "s3://bucket/lake"}})
    without = blocked("s3fs", "aiobotocore", "botocore", "aiohttp")
    for arguments in ON_S3:
        done = parquetry(*arguments, "-p", shop.root, COLUMNS="300", **without)
        said = done.stdout + done.stderr
        assert done.returncode == 1, (arguments, said)
        assert f"s3fs {REMEDY}" in said, arguments
        assert "bug of parquetry" not in said, arguments


def test_a_source_on_s3_names_the_extra(shop, blocked):
    source = ORDERS["sources"][0] | {"path": "s3://bucket/landing/*.csv"}
    shop.orders(sources=[source])
    without = blocked("s3fs", "aiobotocore", "botocore", "aiohttp")
    assert parquetry("apply", "--auto-approve", "-p", shop.root, **without).returncode == 0
    done = parquetry("run", "-p", shop.root, COLUMNS="300", **without)
    assert (done.returncode, f"s3fs {REMEDY}" in done.stderr) == (1, True), done.stderr


def test_a_package_that_s3fs_itself_lacks_is_named(shop, blocked):
    shop.project(targets={"dev": {"warehouse": "s3://bucket/lake"}})
    done = parquetry("plan", "-p", shop.root, **blocked("botocore"))
    assert (done.returncode, f"botocore {REMEDY}" in done.stderr) == (1, True), done.stderr


def test_the_doctor_lists_the_packages_of_all_extras(tmp_path, blocked):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {
        "pyspark[connect]": "grpcio",
        "pyiceberg[hive,sql-sqlite]": "pyiceberg",
    }  # with extras of their own
    words = [word.partition(">=")[0] for each in declared["optional-dependencies"].values() for word in each]
    extras = {brought.get(word, word): word for word in words if word != "pyarrow"}
    assert {name: extra for name, (_, extra, _) in _EXTRAS.items()} == extras
    modules = [module for module, *_ in _EXTRAS.values()]

    def packages(**environment):
        done = parquetry("doctor", "-p", tmp_path, "--format", "json", **environment)
        checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        return {name: (checks[name]["ok"], checks[name]["found"]) for name in extras}

    there = packages()
    assert all(ok and found[0].isdigit() for ok, found in there.values()), there
    for name, (ok, found) in packages(**blocked(*modules)).items():
        assert ok
        assert found.startswith("not installed; ")
        assert re.search(rf"`pip install '?{re.escape(extras[name])}'?`", found)


def test_an_extra_that_cannot_be_imported_is_to_be_mended(tmp_path, blocked):
    done = parquetry("doctor", "-p", tmp_path, "--format", "json", **blocked("botocore"))
    check = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "s3fs")
    assert not check["ok"]
    assert "botocore" in check["found"]
    assert done.returncode == 1
