"""The sandbox that every case starts from: a project in git, tables with a history, saved plans and layouts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.storage.open import open_store
from tests.support.handmade import HandmadeTable
from tests.support.hostile.sandbox import Sandbox
from tests.support.project_folder import EVENTS as SMALL_EVENTS
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with
from tests.support.small_table import FAST, SmallTable

PROJECT = {
    "apiVersion": "parquetry/v1",
    "kind": "project",
    "name": "shop",
    "description": "A shop.",
    "default_target": "dev",
    "environment": ["LAKE_BUCKET"],
    "vars": {"keep": 3, "team": "data", "share": 0.5},
    "targets": {
        "dev": {
            "warehouse": "./warehouse",
            "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": 4}},
            "budget": {"per_run": "1GiB"},
            "protect": ["ev*"],
        },
        "prod": {
            "warehouse": "s3a://{{ env_var('LAKE_BUCKET', 'lake') }}/shop",
            "storage": {"client_kwargs": {"endpoint_url": "http://localhost:9000"}},
            "spark": {"launcher": "spark-submit", "master": "yarn", "submit_args": ["--queue", "default"]},
            "applied": {"signing_key": "env:PARQUETRY_SIGNING_KEY"},
            "overrides": {"sizing": {"max_file_size": "256MiB"}},
        },
    },
    "defaults": {"owner": "{{ var('team') }}", "tags": ["lake"]},
    "allow": [{"code": "SC310", "table": "orders", "reason": "no more needed"}],
}
LAYOUT_TESTS = [
    {"max_small_files": {"warn": 1, "error": 5}, "where": "p = 'x'"},
    {"max_partition_files": 1},
    {"max_skew": 1},
    {"file_size": {"percentile": 50, "min": "1MiB"}},
    {"max_overlap_depth": {"column": "v", "value": 1}},
    {"query": {"name": "low", "max_files": 1, "max_bytes": "1KiB"}},
    {"clustering_debt": {"max_bytes": "1KiB", "max_age": "1d"}},
    {"max_commit_age": "1d", "where": "p > 'a'"},
    {"write_amplification": {"commits": 9, "max": 1}},
    {"max_file_versions": 1},
    {"max_orphans": 0},
    {"max_drift": 0},
]
EVENTS = SMALL_EVENTS | {
    "description": "What happened.",
    "tags": ["gold"],
    "policy": "standard",
    "clustering": {
        "trigger": "inline",
        "every_commits": 2,
        "plan": {"strategy": "overlap", "small_file_limit": "100MiB", "target_file_size": "120MiB"},
        "execution": {"strategy": "sort", "columns": ["v"]},
    },
    "retention": {"clean": {"keep_commits": 2}, "archive": {"keep_commits": 4}},
    "queries": [{"name": "low", "where": "v < 2 AND p = 'x'", "weight": 0.7}],
    "tests": [{"not_null": ["id"]}, {"expression": "v >= 0"}, *LAYOUT_TESTS],
    "sources": [
        {
            "name": "feed",
            "format": "csv",
            "path": "landing/*.csv",
            "options": {"header": True},
            "select": "SELECT *, upper(p) AS q FROM source WHERE v > 0",
            "operation": "upsert",
            "delete_when": "op = 'D'",
            "drop": ["op"],
        }
    ],
}
POLICY = {
    "apiVersion": "parquetry/v1",
    "kind": "policy",
    "name": "standard",
    "sizing": {"max_file_size": "128MiB"},
    "retention": {"clean": {"keep_commits": "{{ var('keep') }}"}},
}
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": null}]}'


def build(root: Path) -> Sandbox:
    """The sandbox in a new folder. Takes a few seconds; cases copy it."""
    sandbox = Sandbox(root)
    sandbox.furnish()
    folder = ProjectFolder.create(sandbox.project)
    folder.write("parquetry.yml", PROJECT)
    (folder.root / "policies").mkdir()
    (folder.root / "schemas").mkdir()
    folder.write("policies/standard.yml", POLICY)
    folder.write("tables/events.yml", EVENTS)
    folder.write("tables/old.yml", ORDERS | {"name": "old"})
    (folder.root / "schemas/listed.avsc").write_text(AVRO, encoding="utf-8")
    listed = {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": "listed",
        "columns": {"file": "schemas/listed.avsc"},
    }
    folder.write("tables/listed.yml", listed | {"record_key": ["id"]})
    for number in range(2):
        folder.deliver(f"day{number}.csv", "id,v,p,op\na,1,x,I\n")
    git(folder.root, "init", "--quiet", "--initial-branch", "main")
    commit(folder.root, "base")
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    _write_history(folder.root / "warehouse" / "events")
    _write_loose(sandbox.loose)
    folder.write(
        "tables/events.yml", EVENTS | {"columns": [*EVENTS["columns"], {"name": "note", "type": "string"}]}
    )
    folder.write("tables/new.yml", ORDERS | {"name": "new"})
    folder.orders(columns=columns_with(amount=None))
    (folder.root / "tables/old.yml").unlink()
    commit(folder.root, "squashed")
    git(folder.root, "gc", "--quiet")
    _save(sandbox)
    return sandbox


def git(directory: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *identity, "-C", str(directory), *arguments]
    subprocess.run(command, check=True, env=environment, capture_output=True)


def commit(directory: Path, tag: str) -> None:
    git(directory, "add", "--all", "parquetry.yml", "tables", "policies", "schemas")
    git(directory, "commit", "--quiet", "--message", tag)
    git(directory, "tag", tag)


def _write_history(path: Path) -> None:
    table = SmallTable(open_store(path), timing=FAST)
    for n in range(5):
        landed = SourceFile(path=f"landing/day{n}.csv", size_bytes=20, modified_ms=1)
        table.upsert(
            {"a": (n, "x"), f"b{n}": (n, "y")}, consumed=[Consumption(source="feed", files=(landed,))]
        )
    table.overwrite({"c": (1, "z")})
    clean(table.handle, timing=FAST)
    table.insert({"d": (1, "x")})
    archive(table.handle, timing=FAST)
    create_savepoint(table.handle, timing=FAST)
    rolled_back = table.insert({"e": (1, "x")})
    rollback(table.handle, rolled_back.instant, timing=FAST)
    table.upsert({"f": (1, "x")})


def _write_loose(path: Path) -> None:
    table = HandmadeTable(path)
    table.commit("1", {"p=a": {"f1": [("a", 1), ("b", 2)]}, "p=b": {"f2": [("c", 3)]}})
    table.commit("2", {"p=a": {"f1": [("a", 1), ("b", 5)]}})
    table.clean("3", "1")
    table.commit("4", {"p=b": {"f3": [("d", 3)]}}, replaced={"p=b": ["f2"]})
    table.savepoint("4")
    table.plan_clustering("5", {"p=a": ["f1"]})
    table.request("6")
    table.files("6", {"p=c": {"f9": [("z", 1)]}})


def _save(sandbox: Sandbox) -> None:
    """Plans and a layout as their commands save them, and what `compile` writes."""
    for arguments in (
        ("plan", "--out", "plan.json"),
        ("plan", "--due", "--out", "due.json"),
        ("inspect", "events", "--out", "layout.json"),
        ("compile",),
    ):
        out = [str(sandbox.project / a) if a.endswith(".json") else a for a in arguments]
        done = CliRunner().invoke(command_line, [*out, "--project", str(sandbox.project)])
        assert done.exit_code in (0, 1), done.output
