"""Commands that only look: no write to any table, no JVM; with a store that refuses, and with rights to read alone."""

from __future__ import annotations

import hashlib
import json
import subprocess
import urllib.request
from dataclasses import replace

import botocore.session
import pytest
import s3fs

from parquetry.compiler.jobs.manifest import compile_project
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.open import open_store
from tests.support.command_script import parquetry
from tests.support.project_folder import EVENTS as SMALL_EVENTS
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with, with_leave
from tests.support.s3_server import BUCKET, s3_server
from tests.support.small_table import SmallTable
from tests.support.stores import ReadOnlyStore

EVENTS = SMALL_EVENTS | {
    "queries": [{"name": "low", "where": "v < 2"}],
    "tests": [
        {"max_small_files": 1},
        {"query": {"name": "low", "max_rows": 1}},
        {"clustering_debt": {"max_age": "1d"}},
        {"max_commit_age": "1d"},
        {"max_orphans": 0},
        {"max_drift": 0},
    ],
}
CHANGED = EVENTS | {"columns": [*EVENTS["columns"], {"name": "note", "type": "string"}]}
LOOKING = [
    ("validate",),
    ("compile",),
    ("ls",),
    ("plan", "--out", "plan.json"),
    ("plan", "--due", "--format", "json"),
    *(("show", "plan.json", "--format", shape) for shape in ("text", "json", "markdown", "html", "github")),
    ("diff", "--base", "HEAD"),
    ("drift",),
    ("inspect", "events"),
    ("health",),
    ("metrics",),
    ("head", "events"),
    ("timeline", "events"),
    ("history", "events"),
    ("test",),
]


@pytest.fixture
def folder(tmp_path):
    """A project with a table of every state: applied and changed, applied and gone, and not there yet."""
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)
    folder.write("tables/old.yml", ORDERS | {"name": "old"})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    table = SmallTable(open_store(folder.root / "warehouse/events"))
    for n in range(3):
        table.upsert({"a": (n, "x"), f"b{n}": (n, "y")})
    for arguments in (
        ("init", "--quiet"),
        ("add", "parquetry.yml", "tables"),
        ("commit", "--quiet", "-m", "one"),
    ):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *identity, "-C", str(folder.root), *arguments], check=True)
    folder.write("tables/events.yml", CHANGED)
    folder.write("tables/new.yml", ORDERS | {"name": "new"})
    folder.orders(columns=columns_with(amount=None))
    (folder.root / "tables/old.yml").unlink()
    return folder


def everything(folder):
    """Every file below the warehouse with its content and its time."""
    return {
        path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted((folder.root / "warehouse").rglob("*"))
        if path.is_file()
    }


def test_commands_that_look_write_nothing_and_start_no_jvm(folder, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    started = tmp_path / "java was started"
    java = programs / "java"
    java.write_text(f"#!/bin/sh\ntouch '{started}'\nexit 1\n")
    java.chmod(0o755)
    (programs / "bin").symlink_to(programs)
    before = everything(folder)
    for arguments in LOOKING:
        path = f"{programs}:/usr/bin:/bin"
        done = parquetry(*arguments, cwd=folder.root, PATH=path, JAVA_HOME=str(programs))
        assert done.returncode in (0, 1), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stdout, arguments
    assert everything(folder) == before
    assert not started.exists()
    subprocess.run([str(java)], check=False)
    assert started.exists()


def test_plans_of_a_store_that_refuses_to_write(folder):
    workspace = replace(
        folder.workspace(),
        open=lambda place, options, allowed: ReadOnlyStore(open_store(place, options, allowed)),
    )
    plan = plan_workspace(workspace, now_ms=0, due=True)
    assert {action.table for action in plan.intent.actions} == {"events", "new", "old"}
    assert [blocked.table for blocked in plan.intent.blocked] == ["orders"]
    compile_project(workspace)
    with pytest.raises(StorageError, match="Read-only file system"):
        workspace.store_at("warehouse/events").put("x", b"")


@pytest.fixture
def lake():
    with s3_server() as options:
        yield options
        check_rights_after(options["endpoint_url"], "inf")  # the setting is the process's, not the server's


def test_plans_with_rights_to_read_alone(tmp_path, lake):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)

    def use(key, secret):
        storage = {"key": key, "secret": secret, "endpoint_url": lake["endpoint_url"]}
        folder.project(targets={"dev": with_leave({"warehouse": f"s3a://{BUCKET}/lake", "storage": storage})})

    use(lake["key"], lake["secret"])
    assert parquetry("apply", "--auto-approve", cwd=folder.root).returncode == 0
    table = SmallTable(open_store(f"s3://{BUCKET}/lake/events", lake))
    table.insert({"a": (1, "x")})
    key, secret = reader_of(lake["endpoint_url"])
    use(key, secret)
    folder.write("tables/events.yml", CHANGED)
    folder.write("tables/new.yml", ORDERS | {"name": "new"})
    plan = parquetry("plan", "--due", "--format", "json", cwd=folder.root)
    assert plan.returncode == 0, plan.stderr
    document = json.loads(plan.stdout)
    assert [(a["table"], a["class"]) for a in document["intent"]["actions"]] == [
        ("events", "evolve"),
        ("new", "create"),
        ("orders", "policy"),  # it records another storage.key
    ]
    assert document["evidence"]["figures"]["events"]["files"] == 1
    reading = (
        ("inspect", "events"),
        ("head", "events"),
        ("timeline", "events"),
        ("history", "events"),
        ("drift",),
        ("test", "-s", "test:max_orphans"),
    )
    for arguments in (("validate",), ("compile",), *reading):
        done = parquetry(*arguments, cwd=folder.root)
        assert done.returncode == 0, (arguments, done.stderr)
    refused = parquetry("apply", "--auto-approve", cwd=folder.root)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    with pytest.raises(PermissionError):
        s3fs.S3FileSystem(key=key, secret=secret, endpoint_url=lake["endpoint_url"]).pipe(f"{BUCKET}/x", b"")


def reader_of(endpoint):
    """Key and secret of a user of the server who may list and read; from here on it asks for rights."""
    session = botocore.session.get_session()
    iam = session.create_client(
        "iam", "us-east-1", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test"
    )
    iam.create_user(UserName="reader")
    rights = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*", "s3:Head*"], "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [rights]})
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
    made = iam.create_access_key(UserName="reader")["AccessKey"]
    check_rights_after(endpoint, "0")
    return made["AccessKeyId"], made["SecretAccessKey"]


def check_rights_after(endpoint, requests):
    """Let the server ask for rights after so many requests."""
    ask = urllib.request.Request(
        f"{endpoint}/moto-api/reset-auth", data=requests.encode(), headers={"Content-Type": "text/plain"}
    )
    with urllib.request.urlopen(ask) as answer:
        assert answer.status == 200
