"""Options that no other test and no golden folder names."""

from __future__ import annotations

import json

from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import make_table


def test_a_savepoint_is_deleted_by_its_instant(tmp_path):
    path = tmp_path / "t"
    table = make_table(path)
    table.insert({"k": (1, "a")})
    service = ("service", "savepoint", path)
    saved = json.loads(parquetry(*service, "--format", "json").stdout)["instant"]
    assert table.handle.timeline().savepoints == (saved,)
    unnamed = parquetry(*service, "--delete")
    assert (unnamed.returncode, "--delete needs the INSTANT" in unnamed.stderr) == (2, True)
    done = parquetry(*service, saved, "--delete", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["deleted"]) == (0, saved)
    assert table.handle.timeline().savepoints == ()


def test_a_saved_plan_is_shown_in_so_many_bytes(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    sources = [{"name": f"s{n}", "format": "csv", "path": f"landing/{n}.csv"} for n in range(60)]
    folder.orders(sources=sources)
    assert parquetry("plan", "--out", "plan.json", cwd=folder.root).returncode == 0
    whole = parquetry("show", "plan.json", "--format", "markdown", cwd=folder.root).stdout
    short = parquetry(
        "show", "plan.json", "--format", "markdown", "--max-bytes", 2000, cwd=folder.root
    ).stdout
    assert len(short.encode()) <= 2000 < len(whole.encode())


def test_a_new_project_installs_what_is_asked_for(tmp_path):
    assert parquetry("init", "shop", "--install", "parquetry==1.2.3", cwd=tmp_path).returncode == 0
    assert "parquetry==1.2.3" in (tmp_path / "shop/requirements.in").read_text().split()
