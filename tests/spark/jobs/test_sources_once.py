"""A file is ingested once, whatever becomes of its name, its time, its source and its table's spec."""

from __future__ import annotations

import importlib
import json
import os
import shutil

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.runtime.sources import due
from tests.support.project_folder import ProjectFolder

pytestmark = pytest.mark.spark

FEED = {"name": "feed", "format": "csv", "path": "landing/*.csv", "operation": "insert"}
TRIPS = {
    "apiVersion": "parquetry/v1",
    "kind": "table",
    "name": "trips",
    "columns": [{"name": "id", "type": "bigint"}, {"name": "city", "type": "string"}],
    "sources": [FEED],
}


@pytest.fixture
def folder(tmp_path, monkeypatch, spark):  # the session that runs find
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    monkeypatch.chdir(folder.root)
    folder.write("tables/trips.yml", TRIPS)
    for number in range(3):
        (folder.root / f"landing/{number}.csv").write_text(f"id,city\n{number},Oslo\n")
    called("apply", "--auto-approve")
    assert run()["files_read"] == 3
    return folder


def called(*arguments, code=0):
    result = CliRunner().invoke(command_line, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def run(job="ingest_feed", code=0):
    jobs = json.loads(called("run", "--only", "ingest", "--format", "json", code=code))["jobs"]
    return next(each["result"] for each in jobs if each["job"] == job)


def rows(table="trips"):
    return sum(
        part["rows"] for part in json.loads(called("inspect", table, "--format", "json"))["partitions"]
    )


def planned(folder, name, **changes):
    """Declare the table anew; what the plan says of its new sources, and its text."""
    folder.write(f"tables/{name}.yml", TRIPS | {"name": name} | changes)
    plan = json.loads(called("plan", "--format", "json"))
    return plan["evidence"]["sources"][name], called("plan")


def test_a_renamed_source_knows_its_files(folder):
    (source,), text = planned(folder, "trips", sources=[FEED | {"name": "deliveries"}])
    (known,) = source["known"]
    assert (source["files"], known["source"], known["files"]) == (0, "feed", 3)
    assert "ingest deliveries (insert): nothing new; 3 files" in text
    called("apply", "--auto-approve")
    result = run("ingest_deliveries")
    assert (result["commit"], rows()) == (None, 3)
    assert "left out 3 files that source feed has already ingested" in result["warnings"][0]
    assert run("ingest_deliveries")["warnings"] == []  # said once


def test_a_moved_folder_holds_known_files_and_new_ones(folder):
    (folder.root / "landing").rename(folder.root / "arrivals")
    (folder.root / "arrivals/9.csv").write_text("id,city\n9,Rome\n")
    (source,), _ = planned(folder, "trips", sources=[FEED | {"path": "arrivals/*.csv"}])
    assert (source["files"], source["known"][0]["files"]) == (1, 3)
    called("apply", "--auto-approve")
    assert (run()["files_read"], rows()) == (1, 4)


def test_touched_files_and_copied_projects_ingest_nothing_again(folder, monkeypatch, tmp_path):
    shutil.copytree(folder.root, tmp_path / "copy")
    shutil.rmtree(folder.root)
    monkeypatch.chdir(tmp_path / "copy")
    for file in (tmp_path / "copy/landing").iterdir():
        os.utime(file, (1e9, 1e9))
    (tmp_path / "copy/landing/9.csv").write_text("id,city\n9,Rome\n")
    assert (run()["files_read"], rows()) == (1, 4)


def test_the_recipe_for_a_type_ends_with_the_rows_that_there_were(folder):
    columns = [{"name": "id", "type": "string"}, TRIPS["columns"][1]]
    old = {"name": "old", "format": "hudi", "path": "warehouse/trips", "operation": "insert"}
    old["select"] = "SELECT CAST(id AS string) AS id, city FROM source"
    folder.write("tables/trips_v2.yml", TRIPS | {"name": "trips_v2", "columns": columns, "sources": [old]})
    called("apply", "--auto-approve")
    assert run("ingest_old")["commit"]["inserted_rows"] == 3
    new = yaml.safe_load((folder.root / "tables/trips_v2.yml").read_text()) | {"sources": [FEED]}
    folder.write("tables/trips_v2.yml", new)
    called("rename", "trips_v2", "trips", "--replace")
    called("apply", "--auto-approve")
    assert (run()["commit"], rows()) == (None, 3)


def test_a_copy_is_ingested_on_demand_alone(folder):
    shutil.copy(folder.root / "landing/0.csv", folder.root / "landing/7.csv")
    assert (run()["commit"], rows()) == (None, 3)
    called("source", "accept", "trips.feed", "landing/7.csv", "--auto-approve")
    assert (run()["files_read"], rows()) == (1, 4)
    (again,), _ = planned(folder, "trips", sources=[FEED, FEED | {"name": "twice", "ingest_again": "a test"}])
    # The copy is one in the second source, too.
    assert again["files"] == 3
    called("apply", "--auto-approve")
    assert (run("ingest_twice")["files_read"], rows()) == (3, 7)


def test_a_bad_file_is_set_aside_and_the_others_go_on(folder):
    (folder.root / "landing/0.csv").write_text("id,city\n0,changed\n")
    (folder.root / "landing/8.csv").write_text("id,city\nx,Rome\n")
    (folder.root / "landing/9.csv").write_text("id,city\n9,Rome\n")
    assert "landing/0.csv changed after" in CliRunner().invoke(command_line, ["run"]).output
    assert rows() == 3
    planned(folder, "trips", sources=[FEED | {"bad_files": "set_aside"}])
    called("apply", "--auto-approve")
    result = run(code=1)
    assert [next(n for n in ("0.csv", "8.csv") if n in why) for why in result["set_aside"]] == [
        "8.csv",
        "0.csv",
    ]
    assert (result["files_read"], rows()) == (1, 4)
    called("source", "skip", "trips.feed", "landing/0.csv", "landing/8.csv", "--auto-approve")
    assert (run()["set_aside"], rows()) == ([], 4)


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(folder, monkeypatch):
    new = folder.root / "landing/9.csv"
    new.write_text("id,city\n9,Rome\n")
    check, seen = due.check_unchanged, []

    def replaced_first(*arguments, **named):
        if not seen:
            longer = folder.root / "9.part"
            longer.write_text("id,city\n9,Rome\n10,Rome\n")
            longer.rename(new)
        seen.append(1)
        return check(*arguments, **named)

    monkeypatch.setattr("parquetry.runtime.spark.ingest.check_unchanged", replaced_first)
    assert (run()["files_read"], rows(), len(seen)) == (1, 5, 2)


def test_a_rollback_says_what_the_next_run_ingests_again(folder):
    (folder.root / "landing/9.csv").write_text("id,city\n9,Rome\n")
    instant = run()["commit"]["instant"]
    text = called("service", "rollback", "trips", instant, "--auto-approve")
    assert "the next run ingests 1 file, 15 B, of source feed again" in text
    assert "`parquetry source skip trips.feed FILE`" in text
    assert (run()["files_read"], rows()) == (1, 4)
    savepoint = json.loads(called("service", "savepoint", "trips", "--format", "json"))["instant"]
    (folder.root / "landing/8.csv").write_text("id,city\n8,Bern\n")
    run()
    restored = json.loads(
        called("service", "restore", "trips", savepoint, "--auto-approve", "--format", "json")
    )
    assert restored["reads_again"] == [{"source": "feed", "files": 1, "size_bytes": 15}]
    called("source", "skip", "trips.feed", "landing/8.csv", "--auto-approve")
    assert (run()["commit"], rows()) == (None, 4)


def test_a_full_source_whose_files_are_gone_is_an_error(folder):
    full = FEED | {"read": "full", "operation": "insert_overwrite_table", "name": "all"}
    columns = [TRIPS["columns"][0] | {"nullable": False}, TRIPS["columns"][1]]
    cities = TRIPS | {"name": "cities", "columns": columns, "record_key": ["id"]}
    folder.write("tables/cities.yml", cities | {"sources": [full]})
    called("apply", "--auto-approve")
    run("ingest_all")
    for file in (folder.root / "landing").iterdir():
        file.unlink()
    failed = called("run", "--only", "ingest", "--format", "json", code=1)
    assert "all its files were deleted, but the table keeps the rows" in failed
    folder.write("tables/cities.yml", cities | {"sources": [full | {"if_missing": "warn"}]})
    called("apply", "--auto-approve")
    assert "all its files were deleted" in run("ingest_all")["warnings"][0]
    assert rows("cities") == 3


def test_rows_that_a_source_table_has_lost_are_an_error_or_kept(folder):
    copy = {"name": "old", "format": "hudi", "path": "warehouse/trips", "operation": "insert"}
    folder.write("tables/copies.yml", TRIPS | {"name": "copies", "sources": [copy]})
    called("apply", "--auto-approve")
    run("ingest_old")
    trips = parquetry.open(str(folder.root / "warehouse/trips"))
    bern = pa.table({"id": [7], "city": ["Bern"]})
    lost = {
        "deleted or moved 1 rows": lambda: trips.delete(pa.table({"city": ["Rome"]}), match=["city"]),
        "replaced 1 file groups": lambda: trips.insert_overwrite_table(bern),
        "was rolled back": lambda: trips.rollback(newest),
    }
    for number, (said, lose) in enumerate(lost.items(), 10):
        (folder.root / f"landing/{number}.csv").write_text(f"id,city\n{number},Rome\n")
        newest = run()["commit"]["instant"]
        run("ingest_old")
        before = rows("copies")
        lose()
        assert said in called("run", "--only", "ingest", "-s", "copies", "--format", "json", code=1)
        assert said in called("plan", "--due", "-s", "copies", "--format", "json")
        folder.write(
            "tables/copies.yml", TRIPS | {"name": "copies", "sources": [copy | {"removed_rows": "keep"}]}
        )
        called("apply", "--auto-approve")
        assert said in run("ingest_old")["warnings"][0]
        assert rows("copies") in (before, before + 1)
        folder.write("tables/copies.yml", TRIPS | {"name": "copies", "sources": [copy]})
        called("apply", "--auto-approve")


def test_a_source_that_is_read_in_full_knows_its_files_by_their_content(folder, monkeypatch, tmp_path):
    (folder.root / "landing/nested").mkdir()
    (folder.root / "landing/0.csv").rename(folder.root / "landing/nested/0.csv")
    every = {"name": "every", "format": "csv", "path": "landing", "read": "full", "operation": "insert"}
    planned(folder, "copies", sources=[every])
    called("apply", "--auto-approve")
    assert (run("ingest_every")["files_read"], rows("copies")) == (3, 3)

    def is_not_read(job, **source):
        """Nothing is due for the source as it is declared now."""
        declared = every | {"name": job.removeprefix("ingest_")} | source
        folder.write("tables/copies.yml", TRIPS | {"name": "copies", "sources": [declared]})
        called("apply", "--auto-approve")
        assert "waiting" not in called("source", "list", "copies")
        assert (run(job)["commit"], rows("copies")) == (None, 3)

    for number, file in enumerate((folder.root / "landing").rglob("*.csv")):
        os.utime(file, (1e9 + number, 1e9))
    is_not_read("ingest_every")
    planned(folder, "copies", sources=[every | {"name": "all"}])
    assert "ingest all (insert): nothing new; 3 files" in called("plan")
    called("apply", "--auto-approve")
    assert "left out 3 files that source every has already ingested" in run("ingest_all")["warnings"][0]
    is_not_read("ingest_all")
    (folder.root / "landing").rename(folder.root / "arrivals")
    is_not_read("ingest_every", path="arrivals/**")
    shutil.copytree(folder.root, tmp_path / "copy")
    shutil.rmtree(folder.root)
    monkeypatch.chdir(tmp_path / "copy")
    assert run("ingest_every")["commit"] is None
    (tmp_path / "copy/arrivals/1.csv").write_text("id,city\n7,Oslo\n")  # of the same size
    assert (run("ingest_every")["files_read"], rows("copies")) == (3, 6)
    called("source", "forget", "copies.every", "--auto-approve")
    assert "3 files there" in called("source", "list", "copies")
    assert (run("ingest_every")["files_read"], rows("copies")) == (3, 9)
    refused = CliRunner().invoke(
        command_line, ["source", "skip", "copies.every", "arrivals/1.csv", "--auto-approve"]
    )
    assert "`parquetry source forget copies.every`" in " ".join(refused.output.split())


def test_forgotten_files_are_ingested_again_as_far_as_they_are_there(folder):
    (folder.root / "landing/1.csv").unlink()
    called("source", "forget", "trips.feed", "landing/0.csv", "--auto-approve")
    assert (run()["files_read"], rows()) == (1, 4)
    called("source", "forget", "trips.feed", "--auto-approve")
    assert (run()["files_read"], rows()) == (2, 6)
    assert (run()["commit"], rows()) == (None, 6)


def test_moved_knowledge_keeps_the_files_of_a_copied_table_out(folder):
    folder.write("tables/copies.yml", TRIPS | {"name": "copies", "sources": [FEED]})
    called("apply", "--auto-approve")
    rows_of_trips = parquetry.open(str(folder.root / "warehouse/trips")).read()
    parquetry.open(str(folder.root / "warehouse/copies")).insert(rows_of_trips)
    assert rows("copies") == 3
    (folder.root / "landing/9.csv").write_text("id,city\n9,Rome\n")
    called("source", "move", "trips.feed", "copies.feed", "--auto-approve")
    result = json.loads(called("run", "--only", "ingest", "--select", "copies", "--format", "json"))
    assert (result["jobs"][0]["result"]["files_read"], rows("copies")) == (1, 4)
    called(
        "service", "rollback", "copies", result["jobs"][0]["result"]["commit"]["instant"], "--auto-approve"
    )
    assert (run()["files_read"], rows("copies")) == (1, 4)


def test_a_project_that_is_split_by_the_steps_of_its_page_ingests_nothing_again(
    folder, monkeypatch, tmp_path
):
    spec = yaml.safe_load((folder.root / "tables/trips.yml").read_text())
    (folder.root / "tables/trips.yml").unlink()
    assert "forget" in called("plan")
    called("apply", "--auto-approve")
    rides = ProjectFolder.create(tmp_path / "rides")
    (rides.root / "tables/orders.yml").unlink()
    monkeypatch.chdir(rides.root)
    called("adopt", str(folder.root / "warehouse/trips"))
    declared = rides.root / "tables/trips.yml"
    landing = {"path": str(folder.root / "landing/*.csv")}
    rides.write("tables/trips.yml", yaml.safe_load(declared.read_text()) | {"sources": [FEED | landing]})
    assert "nothing new; 3 files" in called("plan")
    called("apply", "--auto-approve")
    (folder.root / "landing/9.csv").write_text("id,city\n9,Rome\n")
    assert (run()["files_read"], rows()) == (1, 4)
    assert spec["columns"] == yaml.safe_load(declared.read_text())["columns"]


def test_a_file_that_keeps_changing_is_not_ingested(folder, monkeypatch):
    new, seen = folder.root / "landing/9.csv", []
    new.write_text("id,city\n9,Rome\n")
    check = due.check_unchanged

    def grown_first(*arguments, **named):
        seen.append(1)
        with new.open("a") as handle:
            handle.write(f"{len(seen)},Rome\n")
        return check(*arguments, **named)

    monkeypatch.setattr("parquetry.runtime.spark.ingest.check_unchanged", grown_first)
    failed = called("run", "--only", "ingest", "--format", "json", code=5)
    assert "source feed of trips: landing/9.csv changed while it was read (5 attempts)" in failed
    assert failed.count("source feed") == 1
    assert (rows(), len(seen)) == (3, 5)
    monkeypatch.undo()
    monkeypatch.chdir(folder.root)
    assert (run()["files_read"], rows()) == (1, 9)


@pytest.mark.parametrize("when", ["before its digest", "before it is read"])
def test_a_file_that_goes_after_it_was_listed_is_left_out_by_the_next_run(folder, monkeypatch, when):
    for name in ("8", "9"):
        (folder.root / f"landing/{name}.csv").write_text(f"id,city\n{name},Rome\n")
    place = {
        "before its digest": "parquetry.runtime.sources.due.digests_of",
        "before it is read": "parquetry.runtime.spark.ingest.read_files",
    }[when]
    module, _, name = place.rpartition(".")
    first = getattr(importlib.import_module(module), name)

    def gone_first(*arguments, **named):
        (folder.root / "landing/9.csv").unlink(missing_ok=True)
        return first(*arguments, **named)

    monkeypatch.setattr(place, gone_first)
    failed = called("run", "--only", "ingest", "--format", "json", code=1)
    assert "9.csv was deleted after the source was listed; run again" in failed
    assert rows() == 3
    monkeypatch.undo()
    monkeypatch.chdir(folder.root)
    assert (run()["files_read"], rows()) == (1, 4)


def test_texts_name_the_command_with_table_source_and_path(folder):
    for name in ("a", "b"):
        (folder.root / f"landing/{name}.csv").write_text("id,city\n9,Rome\n")
    assert "use `parquetry source accept trips.feed landing/b.csv`" in run()["warnings"][0]
    (folder.root / "landing/0.csv").write_text("id,city\n0,changed\n")
    failed = " ".join(CliRunner().invoke(command_line, ["run", "--only", "ingest"]).output.split())
    for verb in ("accept", "skip"):
        assert f"`parquetry source {verb} trips.feed landing/0.csv`" in failed
    for words, said in (
        (["accept", "trips.fed", "x"], "of trips has no source 'fed'; did you mean 'feed'?"),
        (["accept", "trips", "x"], "name the source, as in trips.SOURCE; the sources are feed"),
        (["forget", "trips"], "name the source, as in trips.SOURCE"),
        (["skip", "trips.feed", "x"], "has no file x; see `parquetry source list trips.feed -v`"),
    ):
        refused = CliRunner().invoke(command_line, ["source", *words, "--auto-approve"])
        assert said in " ".join(refused.output.split())
