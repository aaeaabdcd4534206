"""A target on S3: options with secrets, plans and tables, by the installed script."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH
from parquetry.runtime.errors import MissingSourceError
from parquetry.runtime.sources.listing import list_files
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.store_jars import S3, hadoop_version, spark_jars
from parquetry.runtime.table.config import LOCK_METHOD_KEY
from parquetry.runtime.table.handle import open_table
from tests.support.command_script import environment, parquetry
from tests.support.event_log import EventLog, scan
from tests.support.hudi_storage_lock import ModelledHudiLock
from tests.support.project_folder import ProjectFolder, with_leave
from tests.support.s3_server import BUCKET
from tests.support.small_table import make_table

SECRETS = {"PARQUETRY_SECRET_KEY": "AKIADONOTPRINT", "PARQUETRY_SECRET_SECRET": "top-s3cret-value"}


@pytest.fixture
def shop(tmp_path, s3_options):
    """A project whose warehouse is a bucket, and a function that runs commands on it."""
    folder = ProjectFolder.create(tmp_path / "shop")
    storage = dict(s3_options) | {
        "key": "{{ env_var('PARQUETRY_SECRET_KEY') }}",
        "secret": "{{ env_var('PARQUETRY_SECRET_SECRET') }}",
    }
    warehouse = f"s3a://{BUCKET}/{tmp_path.name}"
    spark = {"packages": [S3.named(hadoop_version(spark_jars()))]}
    folder.project(targets={"dev": with_leave({"warehouse": warehouse, "storage": storage, "spark": spark})})

    def run(*arguments):
        return parquetry(*arguments, "-p", folder.root, **SECRETS)

    return folder, run


def test_queries_are_learned_from_logs_in_the_bucket(shop, s3_options, tmp_path):
    folder, run = shop
    log = EventLog.of()
    for items in (1, 2):
        log.query(scan(f"s3a://{BUCKET}/{tmp_path.name}/orders", data=f"[(items#3 = {items})]", pushed=None))
    place = f"s3://{BUCKET}/{tmp_path.name}/spark-logs"
    open_store(place, s3_options).put("eventlog_v2_app-1/events_1_app-1", log.content)
    learned = run("learn", place, "--write")
    assert learned.returncode == 0, learned.stderr
    assert "by_items" in (folder.root / "tables/orders.yml").read_text()
    missing = run("learn", f"{place}/none")
    assert (missing.returncode, missing.stderr) == (
        2,
        f"error: there is no log at {place}/none; give files or folders with event logs\n",
    )
    for text in (learned.stdout, learned.stderr):
        assert not any(secret in text for secret in SECRETS.values())


def test_from_plan_to_timeline(shop):
    _, run = shop
    assert run("plan", "--detailed-exitcode").returncode == 3
    applied = run("apply", "--auto-approve")
    assert applied.returncode == 0, applied.stderr
    assert run("plan", "--detailed-exitcode").returncode == 0
    timeline = json.loads(run("timeline", "orders", "--format", "json").stdout)
    assert [instant["state"] for instant in timeline["instants"]] == ["completed"]
    assert json.loads(run("inspect", "orders", "--format", "json").stdout)["totals"]["files"] == 0
    checks = json.loads(run("doctor", "--format", "json").stdout)["checks"]
    assert {check["name"]: check["ok"] for check in checks}["storage"] is True


@pytest.fixture
def declare_locks(shop, s3_options, tmp_path):
    """Write the project anew with a lock of the target, and return the store of the table orders."""
    folder, _ = shop
    before = (folder.root / "parquetry.yml").read_text()

    def declare(locks):
        text = before.replace("warehouse:", f"locks: {locks}\n    warehouse:", 1)
        assert text != before
        (folder.root / "parquetry.yml").write_text(text)
        return open_store(f"s3://{BUCKET}/{tmp_path.name}/orders", s3_options)

    return declare


def test_the_lock_of_a_target_is_planned_applied_and_changed_back(shop, declare_locks):
    _, run = shop
    store = declare_locks("storage")
    assert run("apply", "--auto-approve").returncode == 0
    assert open_table(store).config.raw[LOCK_METHOD_KEY] == "storage"
    assert store.stat(DEFAULT_LOCK_PATH) is None
    assert run("plan", "--detailed-exitcode").returncode == 0
    declare_locks("file")
    planned = run("plan", "--format", "json")
    (action,) = json.loads(planned.stdout)["intent"]["actions"]
    assert [(change["code"], change["old"], change["new"]) for change in action["changes"]] == [
        ("SC202", "storage", "file")
    ]
    applied = run("apply", "--auto-approve")
    assert applied.returncode == 0, applied.stderr
    assert LOCK_METHOD_KEY not in open_table(store).config.raw
    assert json.loads(store.read(STORAGE_LOCK_PATH))["expired"]
    declare_locks("storage")
    assert run("apply", "--auto-approve").returncode == 0
    assert open_table(store).config.raw[LOCK_METHOD_KEY] == "storage"
    assert json.loads(run("drift", "--format", "json").stdout)["tables"][0]["drifts"] == []


def test_a_lock_of_a_hudi_job_is_shown_and_released(shop, declare_locks):
    _, run = shop
    store = declare_locks("storage")
    assert run("apply", "--auto-approve").returncode == 0
    theirs = ModelledHudiLock(store)
    assert theirs.take()
    (shown,) = json.loads(run("unlock", "--list", "--format", "json").stdout)["locks"]
    assert theirs.owner in shown["holder"]
    assert 280 <= shown["expires_in_seconds"] <= 300
    checks = json.loads(run("doctor", "--format", "json").stdout)["checks"]
    (found,) = (check["found"] for check in checks if check["name"] == "table orders")
    assert "the storage-based lock is held by another program" in found
    assert run("unlock", "orders", "--auto-approve").returncode == 0
    assert json.loads(store.read(STORAGE_LOCK_PATH))["expired"]
    assert json.loads(run("unlock", "--list", "--format", "json").stdout) == {"locks": []}


def test_adopt_declares_the_lock_that_hudi_jobs_have_used(shop, s3_options, tmp_path):
    folder, run = shop
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}/theirs", s3_options)
    make_table(store)
    store.delete_folder(".hoodie/.parquetry")
    theirs = ModelledHudiLock(store)
    theirs.take()
    theirs.release()
    adopted = run("adopt", store.uri)
    assert adopted.returncode == 0, adopted.stderr
    assert "locks: storage\n" in (folder.root / "tables/small.yml").read_text()
    assert open_table(store).config.raw[LOCK_METHOD_KEY] == "storage"


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ("", "Spark has no client for S3; list {client} under spark.packages"),
        ("org.apache.hadoop:hadoop-aws:2.7.4", "hadoop-aws 2.7.4 does not fit Spark's Hadoop"),
    ],
)
def test_doctor_says_which_client_spark_needs(tmp_path, s3_options, packages, said):
    folder = ProjectFolder.create(tmp_path / "shop")
    target = {"warehouse": f"s3a://{BUCKET}/{tmp_path.name}", "storage": dict(s3_options)}
    if packages:
        target["spark"] = {"packages": [packages]}
    folder.project(targets={"dev": with_leave(target)})
    done = parquetry("doctor", "--format", "json", "-p", folder.root)
    assert done.returncode == 1
    (check,) = (c for c in json.loads(done.stdout)["checks"] if c["name"] == "spark s3")
    client = S3.named(hadoop_version(spark_jars()))
    assert not check["ok"]
    assert check["found"].startswith(said.format(client=client))
    assert client in check["found"]


def test_no_secret_is_written_down(shop):
    folder, run = shop
    plan = folder.root / "plan.json"
    said = [run("plan", "--out", plan), run("compile"), run("apply", plan), run("doctor")]
    assert [done.returncode for done in said] == [0, 0, 0, 0]
    written = [path.read_bytes().decode("latin-1") for path in folder.root.rglob("*") if path.is_file()]
    assert len(written) > 10
    for text in [*written, *(done.stdout + done.stderr for done in said)]:
        assert not any(secret in text for secret in SECRETS.values())
    job = json.loads((folder.root / "target/jobs/orders/clean.json").read_text())
    assert job["storage"]["secret"] == {"environment_text": "${PARQUETRY_SECRET_SECRET}"}


def test_a_compiled_job_takes_its_secrets_from_the_environment(shop):
    folder, run = shop
    assert run("apply", "--auto-approve").returncode == 0
    assert run("compile").returncode == 0
    command = [sys.executable, str(folder.root / "target/jobs/orders/clean.py")]
    done = subprocess.run(command, env=environment(**SECRETS), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    without = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert without.returncode == 4
    assert "environment variable PARQUETRY_SECRET_" in without.stderr


def test_a_table_in_a_bucket_is_adopted_watched_and_unlocked(shop, tmp_path, s3_options):
    folder, run = shop
    assert run("apply", "--auto-approve").returncode == 0
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}/orders", s3_options)
    store.delete_folder(".hoodie/.parquetry")
    (folder.root / "tables" / "orders.yml").unlink()
    adopted = run("adopt", f"s3a://{BUCKET}/{tmp_path.name}/orders", "--format", "json")
    assert adopted.returncode == 0, adopted.stderr
    assert json.loads(adopted.stdout)["applied_number"] == 1
    assert "location" not in (folder.root / "tables" / "orders.yml").read_text()
    assert run("plan", "--detailed-exitcode").returncode == 0
    assert run("drift", "--check").returncode == 0
    store.put(".hoodie/.aux/lock", b"somebody")
    assert "held by another program (somebody)" in run("unlock", "--list").stdout
    assert run("unlock", "orders", "--auto-approve").returncode == 0
    assert store.stat(".hoodie/.aux/lock") is None


def test_a_prefix_without_objects_is_no_folder(s3_options, tmp_path):
    root = f"s3://{BUCKET}/{tmp_path.name}"
    for pattern in ("landing/*.csv", "landing/**"):
        with pytest.raises(MissingSourceError, match="there is no folder"):
            list_files(f"{root}/{pattern}", options=s3_options, must_exist=True)
    open_store(root, s3_options).put("landing/deep/down/a.txt", b"a")
    for pattern in ("landing/*.csv", "landing/deep/*", "landing/*/*.csv"):
        assert list_files(f"{root}/{pattern}", options=s3_options, must_exist=True) == ()
    assert list_files(f"s3://{BUCKET}/*.csv", options=s3_options, must_exist=True) == ()
