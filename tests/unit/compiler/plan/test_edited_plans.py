"""Saved plans that somebody edited, and digested again."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.spec.codec import canonical_json, digest_of
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.handmade_git import committed, git
from tests.support.project_folder import ProjectFolder

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "shop")
    (made.root / ".gitignore").write_text("warehouse\ntarget\n")
    committed(made.root)
    return made


@pytest.fixture
def saved(folder, tmp_path):
    file = tmp_path / "plan.json"
    assert run(folder, "plan", "--out", str(file))[0] == 0
    return file


def run(folder, *words):
    done = CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])
    return done.exit_code, " ".join(done.output.split())


def ids(saved):
    document = json.loads(saved.read_text())
    return document["plan_id"], document["digest"]


def edit(saved, part, **fields):
    document = json.loads(saved.read_text())
    del document["digest"]
    document[part] |= fields
    saved.write_text(canonical_json(document | {"digest": digest_of(document)}))


def recorded(folder):
    return read_applied(open_store(folder.table)).ref.git_commit


EDITS = {
    "another commit": ("intent", {"git_commit": "1" * 40}),
    "no commit": ("intent", {"git_commit": None}),
    "younger": ("evidence", {"created_ms": 1_900_000_000_000}),
    "another count": ("evidence", {"tables": 7}),
    "other origins": ("evidence", {"origins": {"orders": {"a": "b"}}}),
}


@pytest.mark.parametrize("what", EDITS)
def test_the_digest_approves_the_whole_file(folder, saved, what):
    _, digest = ids(saved)
    before = saved.read_bytes()
    edit(saved, EDITS[what][0], **EDITS[what][1])
    code, said = run(folder, "apply", str(saved), "--approved", digest)
    assert (code, f"{digest} was approved: the file was edited" in said) == (4, True)
    assert not folder.table.exists()
    saved.write_bytes(before)
    assert run(folder, "apply", str(saved), "--approved", digest)[0] == 0
    assert recorded(folder) == git(folder.root, "rev-parse", "HEAD")


def test_a_plan_approved_by_its_id_brings_no_commit(folder, saved):
    plan_id, _ = ids(saved)
    edit(saved, "intent", git_commit="1" * 40)
    code, said = run(folder, "apply", str(saved), "--approved", plan_id)
    assert (code, "was edited, or made from a commit that the checked-out one does not contain" in said) == (
        4,
        True,
    )
    assert not folder.table.exists()


def test_nor_where_no_commit_is_checked_out(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    saved = tmp_path / "plan.json"
    assert run(folder, "plan", "--out", str(saved))[0] == 0
    plan_id, _ = ids(saved)
    before = saved.read_bytes()
    edit(saved, "intent", git_commit="1" * 40)
    assert run(folder, "apply", str(saved), "--approved", plan_id)[0] == 4
    saved.write_bytes(before)
    assert run(folder, "apply", str(saved), "--approved", plan_id)[0] == 0


def test_what_is_recorded_is_the_checked_out_commit(folder, saved):
    plan_id, _ = ids(saved)
    planned = git(folder.root, "rev-parse", "HEAD")
    git(folder.root, "commit", "-q", "--allow-empty", "-m", "merged")
    edit(saved, "intent", git_commit=planned)
    assert run(folder, "apply", str(saved), "--approved", plan_id)[0] == 0
    assert recorded(folder) == git(folder.root, "rev-parse", "HEAD") != planned


@pytest.mark.parametrize("commit", ["--output=x", "HEAD", "1" * 40 + "\n", "1" * 80, "\x1b[2J", "", "A" * 40])
def test_a_commit_is_hex(folder, saved, commit):
    edit(saved, "intent", git_commit=commit)
    for words in (["apply", str(saved)], ["apply", str(saved), "--approved", ids(saved)[0]]):
        code, said = run(folder, *words)
        assert (code, "git_commit is not a commit id" in said) == (4, True)
    shown = CliRunner().invoke(command_line, ["show", str(saved)])
    assert (shown.exit_code, "\x1b" in shown.output) == (4, False)


def test_a_plan_is_not_made_at_a_time_to_come(folder, saved):
    created = json.loads(saved.read_text())["evidence"]["created_ms"]
    edit(saved, "evidence", created_ms=created + WEEK_MS)
    for words in ([], ["--approved", ids(saved)[0]], ["--approved", ids(saved)[1]]):
        code, said = run(folder, "apply", str(saved), *words)
        assert (code, "is in the future" in said) == (4, True)


def test_the_intent_is_held_to_the_id(folder, saved):
    plan_id, digest = ids(saved)
    edit(saved, "intent", project="other")
    for approved in ([], ["--approved", plan_id], ["--approved", digest]):
        code, said = run(folder, "apply", str(saved), *approved)
        assert (code, "the plan's id is not the digest of its intent" in said) == (4, True)


def test_edited_in_place_without_a_digest(folder, saved):
    saved.write_text(saved.read_text().replace('"tables":1', '"tables":2'))
    code, said = run(folder, "apply", str(saved))
    assert (code, "was changed after it was written" in said) == (4, True)
