"""A target on Google Cloud Storage, from the plan to the timeline, and what doctor says of Spark's client."""

from __future__ import annotations

import json

import pytest

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.store_jars import GCS, hadoop_version, spark_jars
from tests.support.command_script import parquetry
from tests.support.gcs_server import BUCKET
from tests.support.project_folder import ProjectFolder, with_leave

HADOOP = hadoop_version(spark_jars())
CLIENT = (GCS.named(HADOOP),)


@pytest.fixture
def shop(tmp_path, gcs_options):
    """A project whose warehouse is a bucket, and a function that runs commands on it."""
    folder = ProjectFolder.create(tmp_path / "shop")

    def run(*arguments, packages=CLIENT):
        target = {"warehouse": f"gs://{BUCKET}/{tmp_path.name}", "storage": dict(gcs_options)}
        if packages:
            target["spark"] = {"packages": list(packages)}
        folder.project(targets={"dev": with_leave(target)})
        return parquetry(*arguments, "-p", folder.root)

    return folder, run


def checks(done):
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_from_plan_to_timeline(shop, tmp_path, gcs_options):
    folder, run = shop
    assert run("plan", "--detailed-exitcode").returncode == 3
    applied = run("apply", "--auto-approve")
    assert applied.returncode == 0, applied.stderr
    assert run("plan", "--detailed-exitcode").returncode == 0
    timeline = json.loads(run("timeline", "orders", "--format", "json").stdout)
    assert [instant["state"] for instant in timeline["instants"]] == ["completed"]
    assert json.loads(run("inspect", "orders", "--format", "json").stdout)["totals"]["files"] == 0
    found = checks(run("doctor", "--format", "json"))
    assert found["storage"]["ok"] is True
    assert found["spark gs"] == {"name": "spark gs", "ok": True, "found": f"hadoop-gcp {HADOOP}"}
    store = open_store(f"gs://{BUCKET}/{tmp_path.name}/orders", gcs_options)
    store.put(".hoodie/.aux/lock", b"somebody")
    assert "held by another program (somebody)" in run("unlock", "--list").stdout
    assert run("unlock", "orders", "--auto-approve").returncode == 0
    assert store.stat(".hoodie/.aux/lock") is None
    adopted = folder.root / "tables" / "orders.yml"
    adopted.unlink()
    store.delete_folder(".hoodie/.parquetry")
    assert run("adopt", store.uri, "--format", "json").returncode == 0
    assert "location" not in adopted.read_text()


def test_doctor_says_which_client_spark_needs(shop):
    _, run = shop
    done = run("doctor", "--format", "json", packages=())
    assert done.returncode == 1
    check = checks(done)["spark gs"]
    assert not check["ok"]
    assert CLIENT[0] in check["found"]


def test_a_token_that_is_written_out_is_in_no_plan(shop, gcs_options):
    folder, _ = shop
    target = {"warehouse": f"gs://{BUCKET}/x", "storage": {"token": "ya29.hidden"}}
    folder.project(targets={"dev": target})
    said = parquetry("diff", "-p", folder.root), parquetry("validate", "-p", folder.root)
    assert not any("hidden" in done.stdout + done.stderr for done in said)
