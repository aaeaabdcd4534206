"""A replay in text, JSON and as a page; and in the plan of a change of limits."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from parquetry.cli.main import command_line
from parquetry.cli.terminal.format import human_size
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.plan.words import replay_text
from parquetry.compiler.plan.codec import decode
from parquetry.compiler.replay.model import Replay, ReplayedDay, ReplayedFigures
from parquetry.compiler.reports.replay_chart import replay_charts
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.sized_table import SizedTable
from tests.support.small_table import FAST, SmallTable

LARGER = ("--max-file-size", "512KiB", "--small-file-limit", "400KiB")


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replayed") / "table"
    table = SizedTable.create(folder)
    for number in range(4):
        table.upsert({"a": 900}, updates={"a": 10} if number else {})
    return str(folder)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def replayed(*arguments):
    result = CliRunner().invoke(command_line, ["simulate", "sizing", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_layout_has_a_line_and_so_has_each_day(location):
    text = replayed(location, "--replay", "90d", *LARGER)
    header, *rows = text.partition("\n\n")[0].splitlines()
    assert header.split() == [
        *("limits", "files", "small", "size", "old", "written", "clustered", "per", "byte"),
    ]
    assert [row.split()[0] for row in rows] == ["recorded", "applied", "declared"]
    assert rows[0].split()[1] == rows[1].split()[1] != rows[2].split()[1]
    assert re.search(r"\n20\d\d-\d\d-\d\d +\d.* / .* / ", text)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_json_fits_its_schema_with_other_limits_and_without(location):
    validator = Draft202012Validator(answer_schema("simulate-replay"))
    for limits in ((), LARGER):
        document = json.loads(replayed(location, "--replay", "2d", "--format", "json", *limits))
        validator.validate(document)
        found = document["replay"]
        assert ("declared" in found) == bool(limits)
        assert found["recorded"]["written_bytes"] == sum(
            day["recorded"]["written_bytes"] for day in found["days"]
        )


def test_a_replay_is_saved_as_a_page_that_loads_nothing(location, tmp_path):
    page = tmp_path / "replay.html"
    replayed(location, "--replay", "90d", *LARGER, "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.count("<figure>") == 2
    assert "by the declared limits" in text
    assert not re.search(r"(src|href)=", text)


def figures(files, written):
    return ReplayedFigures(
        files=files, small_files=0, size_bytes=0, superseded_bytes=0, written_bytes=written, clustered_bytes=0
    )


def day(date, *, applied, declared=None):
    return ReplayedDay(
        day=date,
        commits=1,
        arrived_bytes=1,
        recorded=figures(7, 70),
        applied=figures(*applied),
        declared=None if declared is None else figures(*declared),
    )


def replay_of(*days):
    last = days[-1]
    return Replay(
        since="20260101000000000",
        until="20260131000000000",
        commits=len(days),
        clusterings=0,
        arrived_bytes=1,
        applied_limits=SizingPolicy(),
        recorded=last.recorded,
        applied=last.applied,
        declared=last.declared,
        days=days,
    )


def test_a_chart_is_as_wide_as_the_time_between_its_days():
    first = day("2026-01-01", applied=(10, 400), declared=(2, 100))
    last = day("2026-01-31", applied=(20, 200), declared=(4, 50))
    files, written = replay_charts(replay_of(first, last), size_text=human_size)
    assert "applied limits: 10 on 2026-01-01, 20 on 2026-01-31" in files.text
    _, applied, declared = files.curves
    assert applied.points.split()[0].split(",")[1] == "75.0"
    assert declared.points.split()[-1] == "410.0,108.0"
    assert {bar.css for bar in written.rectangles} == {"old", "new"}
    assert max(bar.height for bar in written.rectangles) == 110
    gap = written.rectangles[1].x - written.rectangles[0].x
    assert gap > 350
    assert all(bar.x >= 0 and bar.x + bar.width <= written.width for bar in written.rectangles)


def test_without_other_limits_the_chart_compares_with_what_is_recorded():
    one = replay_of(day("2026-01-01", applied=(10, 400)))
    files, _ = replay_charts(one, size_text=human_size)
    assert [name for _, name in files.legend] == ["recorded", "by the applied limits"]


def invoke(*arguments):
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code in (0, 2), result.output
    return result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)
    monkeypatch.chdir(folder.root)
    invoke("apply", "--auto-approve")
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for number in range(6):
        table.insert({f"k{number}": (number, "a")})
    return folder


def test_a_plan_that_changes_limits_says_what_they_would_have_made(folder):
    folder.write("tables/events.yml", EVENTS | {"sizing": {"max_file_size": "64KiB", "small_file_limit": 0}})
    said = " ".join(invoke("plan").stdout.split())
    assert (
        "replay of the newest writes (7 commits, 1 day): the new limits would have left 6 files (0 small) "
        "instead of 1 (1 small), and written"
    ) in said
    # The helper that fills the table does not fill small files, as the writer would.
    assert "the replay is inexact: against what is recorded, the limits of today end with -83.3% of" in said
    invoke("plan", "--out", "plan.json")
    assert "would have left 6 files" in invoke("show", "plan.json", "--format", "markdown").stdout
    assert "by the declared limits" in invoke("show", "plan.json", "--format", "html").stdout
    document = json.loads(invoke("plan", "--format", "json").stdout)
    Draft202012Validator(answer_schema("plan")).validate(document)
    assert document["evidence"]["figures"]["events"]["replay"]["declared"]["files"] == 6


@pytest.mark.parametrize(("files", "is_named"), [(100, False), (104, False), (106, True), (94, True)])
def test_a_plan_names_the_error_of_its_replay_above_one_in_twenty(files, is_named):
    found = replay_of(day("2026-01-01", applied=(files, 100), declared=(5, 100)))
    found = replace(found, arrived_bytes=100, recorded=figures(100, 100))
    assert ("the replay is inexact" in replay_text(found)) == is_named


def test_a_replay_does_not_change_the_id_of_a_plan(folder):
    folder.write("tables/events.yml", EVENTS | {"sizing": {"max_file_size": "64KiB", "small_file_limit": 0}})
    before = json.loads(invoke("plan", "--format", "json").stdout)
    SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST).insert({"k9": (9, "a")})
    after = json.loads(invoke("plan", "--format", "json").stdout)
    assert before["plan_id"] == after["plan_id"]
    assert before["evidence"]["figures"] != after["evidence"]["figures"]


def test_numbers_that_no_write_has_harm_no_plan(folder):
    folder.write("tables/events.yml", EVENTS | {"sizing": {"max_file_size": "64KiB", "small_file_limit": 0}})
    oldest = sorted((folder.root / "warehouse/events/.hoodie").glob("*.commit"))[1]
    commit = json.loads(oldest.read_text())
    for stats in commit["partitionToWriteStats"].values():
        for stat in stats:
            stat |= {"numWrites": -7, "numInserts": 2**62, "fileSizeInBytes": 2**62}
    oldest.write_text(json.dumps(commit))
    document = json.loads(invoke("plan", "--format", "json").stdout)
    Draft202012Validator(answer_schema("plan")).validate(document)


def test_an_edited_plan_whose_days_are_in_no_order_is_refused(folder):
    folder.write("tables/events.yml", EVENTS | {"sizing": {"max_file_size": "64KiB", "small_file_limit": 0}})
    invoke("plan", "--out", "plan.json")
    for days in (["2026-99-01"], ["2026-01-02", "2026-01-01"], ["2026-01-01", "2026-01-01"]):
        document = json.loads((folder.root / "plan.json").read_text())
        del document["digest"]
        found = document["evidence"]["figures"]["events"]["replay"]
        found["days"] = [found["days"][0] | {"day": day} for day in days]
        text = json.dumps(document | {"digest": digest_of(document)})
        with pytest.raises(StalePlanError, match="cannot read the plan"):
            decode(text, name="plan.json")


def test_a_plan_that_changes_no_limit_replays_nothing(folder):
    folder.write("tables/events.yml", EVENTS | {"retention": {"clean": {"keep_commits": 4}}})
    document = json.loads(invoke("plan", "--format", "json").stdout)
    assert "replay" not in document["evidence"]["figures"]["events"]


def test_a_table_of_another_writer_is_replayed_by_the_default_limits(location, tmp_path):
    folder = tmp_path / "theirs"
    shutil.copytree(location, folder)
    shutil.rmtree(folder / ".hoodie/.parquetry")
    for path in (folder / ".hoodie").glob("*.commit"):
        commit = json.loads(path.read_text()) | {"extraMetadata": {}}
        path.write_text(json.dumps(commit))
    said = " ".join(replayed(str(folder), "--replay", "1w").split())
    assert "note: other programs made 4 of 5 commits" in said
    assert (
        "note: no spec is applied to the table: the replay uses the writer's default limits instead" in said
    )
    assert "applied: max_file_size 120MiB, small_file_limit 100MiB" in said


def test_limits_that_were_applied_within_the_period_are_named(location, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(location, folder)
    table = SizedTable(store=open_store(folder))
    sizing = replace(table.spec.sizing, small_file_limit_bytes=0)
    table.apply(replace(table.spec, sizing=sizing))
    said = " ".join(replayed(str(folder), "--replay", "1w").split())
    assert re.search(r"note: the limits were applied at \d{17}: earlier writes followed other limits", said)
