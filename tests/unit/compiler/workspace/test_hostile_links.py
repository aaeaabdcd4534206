"""Links that were committed into a checkout: nothing is written, read or deleted through them."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.jobs.launch import launcher_for
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.project.loading.outline import outline
from parquetry.runtime.spark_log import open_log
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


@pytest.fixture
def outside(tmp_path):
    """A folder of the user's, with files that look like compiled ones."""
    made = tmp_path / "outside"
    made.mkdir()
    for name in ("manifest.json", "old.json", "old.py", "locations.json"):
        (made / name).write_text("{}")
    return made


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run(folder, *words):
    done = CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])
    return done.exit_code, " ".join(done.output.split())


def link(folder, path, to):
    place = folder.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(to)


def refused(folder, path, *words):
    code, said = run(folder, *words)
    assert code == 2, said
    assert f"'{folder.root / path}' is a link, and parquetry follows no links there" in said
    assert "remove it" in said


LINKS = {
    "target": "",
    "target/manifest.json": "manifest.json",
    "target/jobs": "",
    "target/jobs/orders": "",
    "target/jobs/orders/create.json": "old.json",
    "target/jobs/orders/clean.py": "old.py",
    "target/jobs/parquetry.zip": "manifest.json",
}


@pytest.mark.parametrize("path", LINKS)
def test_compile_follows_no_link(folder, outside, path):
    before = content(outside)
    link(folder, path, outside / LINKS[path])
    refused(folder, path, "compile")
    assert content(outside) == before


@pytest.mark.parametrize("path", ["target/manifest.json", "target/jobs/orders/create.json"])
def test_nor_one_that_leads_nowhere_yet(folder, outside, path):
    link(folder, path, outside / "new.json")
    refused(folder, path, "compile")
    assert not (outside / "new.json").exists()


def test_nor_one_inside_the_project(folder):
    before = (folder.root / "parquetry.yml").read_text()
    link(folder, "target/manifest.json", folder.root / "parquetry.yml")
    refused(folder, "target/manifest.json", "compile")
    assert (folder.root / "parquetry.yml").read_text() == before


def test_stale_jobs_are_deleted_and_links_beside_them_are_left(folder, outside):
    assert run(folder, "compile")[0] == 0
    jobs = folder.root / "target/jobs/orders"
    (jobs / "gone.json").write_text("{}")
    (jobs / "more.json").symlink_to(outside / "old.json")
    before = content(outside)
    assert run(folder, "compile")[0] == 0
    assert not (jobs / "gone.json").exists()
    assert content(outside) == before


@pytest.mark.parametrize("path", ["target", "target/runs"])
@pytest.mark.parametrize("words", [("apply", "--auto-approve"), ("run",)])
def test_runs_leave_nothing_elsewhere(folder, outside, path, words):
    before = content(outside)
    link(folder, path, outside)
    refused(folder, path, *words)
    assert content(outside) == before
    assert not folder.table.exists()


def test_where_tables_are_is_neither_read_nor_noted_through_a_link(folder, outside):
    path = "target/locations.json"
    (outside / "locations.json").write_text(json.dumps({"dev": {"orders": "file:///etc"}}))
    before = content(outside)
    link(folder, path, outside / "locations.json")
    refused(folder, path, "plan")
    refused(folder, path, "apply", "--auto-approve")
    assert content(outside) == before


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"dev": []}', '{"dev": {"orders": 7}}', "\0", '"x"'])
def test_where_tables_are_may_be_nonsense(folder, text):
    (folder.root / "target").mkdir()
    (folder.root / "target/locations.json").write_text(text)
    assert run(folder, "plan")[0] == 0
    assert run(folder, "apply", "--auto-approve")[0] == 0


def test_sparks_log_is_no_link(folder, outside):
    log = folder.root / "target/runs/r1/spark.log"
    link(folder, "target/runs/r1/spark.log", outside / "old.py")
    with pytest.raises(LinkInTheWayError):
        launcher_for(folder.workspace(), "r1")
    with pytest.raises(LinkInTheWayError):
        open_log(log, root=folder.root)
    assert (outside / "old.py").read_text() == "{}"


def test_fmt_writes_no_file_outside(folder, outside):
    untidy = outside / "keys.yml"
    untidy.write_text("name:   'x'\n")
    link(folder, "tables/a.yml", untidy)
    code, said = run(folder, "fmt")
    assert (code, "PQ011" in said) == (1, True)
    assert untidy.read_text() == "name:   'x'\n"


def test_fmt_writes_through_a_link_inside_the_project(folder):
    spec = folder.root / "shared/orders.yml"
    spec.parent.mkdir()
    (folder.root / "tables/orders.yml").rename(spec)
    link(folder, "tables/orders.yml", "../shared/orders.yml")
    spec.write_text(spec.read_text() + "\n\n\n")
    spec.chmod(0o640)
    assert run(folder, "fmt")[0] == 0
    assert (folder.root / "tables/orders.yml").is_symlink()
    assert (spec.read_text()[-2] != "\n", stat.S_IMODE(spec.stat().st_mode)) == (True, 0o640)


IN_THE_WAY = [".gitignore", "tables", "tables/orders.yml", "schemas", "policies", ".github", "landing"]


@pytest.mark.parametrize("path", IN_THE_WAY)
@pytest.mark.parametrize("leads", ["nowhere", "somewhere"])
def test_init_makes_nothing_through_a_link(tmp_path, outside, path, leads):
    root = tmp_path / "new"
    (root / path).parent.mkdir(parents=True)
    (root / path).symlink_to(outside if leads == "somewhere" else outside / "new")
    before = content(outside)
    done = CliRunner().invoke(command_line, ["init", str(root)])
    assert done.exit_code in (1, 2)
    assert content(outside) == before


def test_nor_does_its_workflow(tmp_path, outside):
    subprocess.run(["git", "init", "-q", str(tmp_path / "repository")], check=True)
    (tmp_path / "repository/.github").symlink_to(outside)
    before = content(outside)
    done = CliRunner().invoke(command_line, ["init", str(tmp_path / "repository/shop")])
    assert (done.exit_code, "is a link" in " ".join(done.output.split())) == (2, True)
    assert content(outside) == before


def test_schemas_are_not_written_through_links(tmp_path, outside):
    there = tmp_path / "schemas"
    there.mkdir()
    (there / "table.json").symlink_to(outside / "old.json")
    done = CliRunner().invoke(command_line, ["schema", "--write", str(there)])
    assert (done.exit_code, "is a link" in " ".join(done.output.split())) == (2, True)
    assert (outside / "old.json").read_text() == "{}"


@pytest.mark.parametrize("path", ["target/plan.json", "target", "target/deep/plan.json"])
def test_plans_below_target_are_saved_through_no_link(folder, outside, path):
    (outside / "plan.json").write_text("{}")
    before = content(outside)
    link(folder, path, outside / "plan.json" if path.endswith("json") else outside)
    name = path if path.endswith("json") else f"{path}/plan.json"
    refused(folder, path, "plan", "--out", str(folder.root / name))
    assert content(outside) == before


def test_elsewhere_a_plan_is_saved_where_the_user_says(folder, outside, tmp_path):
    (tmp_path / "mine.json").symlink_to(outside / "mine.json")
    assert run(folder, "plan", "--out", str(tmp_path / "mine.json"))[0] == 0
    assert (outside / "mine.json").exists()


def test_adopt_writes_no_spec_through_a_link(folder, outside):
    place = folder.root / "tables/deep.yml"
    place.symlink_to(outside / "deep.yml")
    with pytest.raises(LinkInTheWayError):
        ConfinedFolder(folder.root).write(place, "name: deep\n")
    assert not (outside / "deep.yml").exists()


def test_a_confined_folder_writes_whole_files(tmp_path):
    place = ConfinedFolder(tmp_path)
    assert place.write("a/b.txt", "one") == tmp_path / "a/b.txt"
    place.write("a/b.txt", b"two")
    os.write(descriptor := place.append("a/b.txt"), b"!")
    os.close(descriptor)
    assert (place.read("a/b.txt"), place.names("a"), place.names("c")) == (b"two!", ("b.txt",), ())
    place.delete("a/b.txt")
    place.delete("a/b.txt")
    place.delete("nowhere/b.txt")
    assert [*(tmp_path / "a").iterdir()] == []


def test_what_is_neither_file_nor_folder_is_in_the_way(tmp_path):
    place = ConfinedFolder(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for path in ("pipe", "file/below", "pipe/below"):
        with pytest.raises(LinkInTheWayError, match="is not a f"):
            place.write(path, "")
    with pytest.raises(LinkInTheWayError, match="leads out"):
        place.write("../x", "")
    with pytest.raises(LinkInTheWayError):
        place.read("pipe")


def test_half_a_file_is_never_there(tmp_path, monkeypatch):
    place = ConfinedFolder(tmp_path)
    place.write("a", "one")
    monkeypatch.setattr(os, "replace", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left") as caught:
        place.write("a", "two")
    assert caught.value.filename == str(tmp_path / "a")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "one"}


def test_shells_complete_no_words_of_other_files(folder, outside):
    (outside / "more.yml").write_text("name: secret\ntags: [hidden]\n")
    link(folder, "tables/more.yml", outside / "more.yml")
    link(folder, "tables/deep", outside)
    found = outline(folder.root)
    assert (found.tables, found.tags, found.targets) == (("orders",), (), ("dev",))
