"""`retention.quarantine` from the spec to the commands: reviewed, applied, listed, moved."""

from __future__ import annotations

import json

import jsonschema
import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import quarantine_path
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.repository import ROOT
from tests.support.small_table import FAST, SmallTable


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)
    called(folder, "apply", "--auto-approve")
    return folder


def called(folder, *words):
    done = CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def answer(folder, schema, *words):
    document = json.loads(called(folder, *words, "--format", "json"))
    path = ROOT / "parquetry/cli/schemas" / f"{schema}.json"
    jsonschema.validate(document, json.loads(path.read_text(encoding="utf-8")))
    return document


def test_a_declared_quarantine_is_planned_listed_and_used(folder):
    folder.write("tables/events.yml", EVENTS | {"retention": {"quarantine": "7d"}})
    planned = called(folder, "plan", "--select", "events")
    assert "retention.quarantine" in planned
    assert "7d" in planned
    called(folder, "apply", "--auto-approve")

    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    table.insert({"a": (1, "a")})

    def dead(_):
        raise InvalidDataError("no")

    table.before_publish = dead
    with pytest.raises(InvalidDataError):
        table.insert({"b": (1, "a")})
    table.before_publish = lambda _: None
    table.insert({"c": (1, "a")})
    timeline = table.handle.timeline()
    (rollback,) = timeline.of(Action.ROLLBACK)
    (victim,) = timeline.rollback_metadata(rollback.time).instants
    orphan = f"p=a/{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_{victim.time}.parquet"
    table.store.put(orphan, b"rows")

    listed = answer(folder, "service-clean", "service", "clean", "events", "--dry-run")
    assert [(one["path"], one["is_new"]) for one in listed["quarantine"]] == [(orphan, True)]
    assert "moves 1 orphan to the quarantine" in called(folder, "service", "clean", "events", "--dry-run")
    assert answer(folder, "service-clean", "service", "clean", "events")["orphans_moved"] == 1
    assert table.store.read(quarantine_path(orphan)) == b"rows"
    due = answer(folder, "plan", "plan", "--due")["evidence"]["deletions"]["events"]
    assert [(one["path"], one["is_new"]) for one in due["quarantine"]] == [(orphan, False)]
    assert "keeps 1 orphan in the quarantine" in called(folder, "plan", "--due")

    folder.write("tables/events.yml", EVENTS)
    assert "the next clean deletes the orphans in the quarantine" in called(folder, "plan", "-s", "events")
    called(folder, "apply", "--auto-approve")
    listed = answer(folder, "service-clean", "service", "clean", "events", "--dry-run")
    assert {file["path"]: file["reason"] for file in listed["files"]}[quarantine_path(orphan)] == "quarantine"
