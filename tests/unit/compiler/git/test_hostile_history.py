"""Revisions whose trees were written by hand, and commits that tables name: git gets no options from them."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.git import repository
from parquetry.compiler.git.repository import git as asked
from parquetry.compiler.git.repository import work_tree
from parquetry.compiler.git.revisions import RevisionError, files_at
from parquetry.runtime.spec.git_commit import commit_named
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, record_digest
from tests.support.handmade_git import blob, commit, committed, git, nested, tree
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder

SPEC = yaml.safe_dump(ORDERS).encode()


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "outer" / "shop")
    committed(made.root)
    return made


def everything(root):
    """Paths and contents below a folder, without git's own."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
        if ".git" not in path.parts
    }


def run(folder, *words):
    done = CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])
    return done.exit_code, " ".join(done.output.split())


def evil(folder, *entries):
    project = ("100644", "parquetry.yml", git(folder.root, "rev-parse", "HEAD:parquetry.yml"))
    return commit(folder.root, tree(folder.root, project, *entries), "evil")


OUT = [
    "tables/../../../evil.yml",
    "tables/../evil.yml",
    "tables/./evil.yml",
    "tables/.git/evil.yml",
    "tables/.GIT/evil.yml",
    "../evil.avsc",
    "schemas/../../evil.avsc",
]


@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize("words", [("diff", "--base", "evil"), ("ls", "--select", "git:evil")])
def test_no_entry_of_a_tree_leaves_the_project(folder, tmp_path, path, words):
    evil(folder, nested(folder.root, path, blob(folder.root, SPEC)))
    before = everything(tmp_path)
    code, said = run(folder, *words)
    assert code == 2
    assert "revision 'evil' cannot be read: its entry '" in said
    assert "is not a path inside the project" in said
    assert "name another revision" in said
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["/tmp/evil.yml", "tables/../../evil.yml", "/"])
def test_nor_a_name_with_slashes(folder, tmp_path, name):
    evil(folder, ("100644", name, blob(folder.root, SPEC)))
    before = everything(tmp_path)
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "is not a path inside the project" in said) == (2, True)
    assert everything(tmp_path) == before


def test_nor_one_without_a_name(folder, tmp_path):
    evil(folder, nested(folder.root, "tables//evil.yml", blob(folder.root, SPEC)))
    before = everything(tmp_path)
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "git cannot read revision 'evil'" in said) == (2, True)
    assert everything(tmp_path) == before


def test_names_are_shown_without_their_control_characters(folder):
    evil(folder, nested(folder.root, "tables/\x1b[2J\n/../x.yml", blob(folder.root, SPEC)))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "\x1b" in said, "'tables/\\x1b[2J\\n/..'" in said) == (2, False, True)


def test_an_entry_that_is_there_twice(folder):
    one = ("100644", "a.yml", blob(folder.root, SPEC))
    evil(folder, ("40000", "tables", tree(folder.root, one, one)))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "its entry 'tables/a.yml' appears twice" in said) == (2, True)


@pytest.mark.parametrize("to", ["/etc/passwd", "../../../secret.yml", "../..", "../.git/config", "", "a.yml"])
def test_links_that_lead_to_no_file_of_the_project(folder, to):
    link = blob(folder.root, to.encode())
    evil(folder, nested(folder.root, "tables/a.yml", link, mode="120000"))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "its entry 'tables/a.yml' is a link" in said) == (2, True)
    assert "copy the file" in said


def test_links_inside_the_project_are_files(folder):
    shared = nested(folder.root, "shared/a.yml", blob(folder.root, SPEC))
    link = blob(folder.root, b"../shared/a.yml")
    evil(folder, shared, nested(folder.root, "tables/orders.yml", link, mode="120000"))
    assert files_at(folder.root, "evil")["tables/orders.yml"] == SPEC
    assert run(folder, "diff", "--base", "evil")[0] == 0


@pytest.mark.parametrize("path", ["tables", "policies"])
def test_a_link_in_place_of_a_folder(folder, path):
    evil(folder, ("120000", path, blob(folder.root, b"/etc")))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, f"its entry '{path}' is not a folder" in said) == (2, True)


@pytest.mark.parametrize("path", ["tables/sub", "tables/a.yml", "tables/deep/er"])
def test_submodules(folder, path):
    evil(folder, nested(folder.root, path, "1" * 40, mode="160000"))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, f"'{path}' is a submodule" in said) == (2, True)


def test_a_tree_that_says_it_is_a_file(folder):
    inner = tree(folder.root, ("100644", "x", blob(folder.root, b"")))
    evil(folder, nested(folder.root, "tables/a.yml", inner))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "is a tree instead of a file" in said) == (2, True)


def test_a_file_that_is_too_large_is_not_read(folder):
    evil(folder, nested(folder.root, "tables/a.yml", blob(folder.root, b"#" * (1 << 20) + b"#")))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "has 1,048,577 bytes; at most 1,048,576 are read" in said) == (2, True)


@pytest.mark.parametrize("with_files", [True, False])
def test_a_tree_without_end(folder, monkeypatch, with_files):
    monkeypatch.setattr(repository, "_MAX_BYTES", 1 << 20)
    inner = tree(folder.root, *([("100644", "x", blob(folder.root, b""))] if with_files else []))
    for _ in range(12):
        inner = tree(folder.root, *(("40000", str(name), inner) for name in range(10)))
    evil(folder, ("40000", "deep", inner))
    code, said = run(folder, "diff", "--base", "evil")
    assert (code, "exceeds 1 MiB" in said) == (2, True)


def test_contents_that_a_partial_clone_lacks_are_not_fetched(folder, tmp_path):
    folder.orders(description="Another one.")
    git(folder.root, "commit", "-qam", "second")
    git(folder.root, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{folder.root}", str(clone))
    mark = tmp_path / "fetched"
    git(clone, "config", "remote.origin.uploadpack", f"touch {mark}; git-upload-pack")
    git(clone, "config", "protocol.file.allow", "always")
    with pytest.raises(RevisionError, match=r"'tables/orders\.yml' has content that is not in this clone"):
        files_at(clone, "HEAD~1")
    assert not mark.exists()
    git(clone, "fetch", "-q", "--refetch", "--no-filter")
    assert "tables/orders.yml" in files_at(clone, "HEAD~1")


def test_ten_thousand_files(folder):
    spec = blob(folder.root, SPEC)
    many = tree(folder.root, *(("100644", f"{number:05}.yml", spec) for number in range(10_000)))
    evil(folder, ("40000", "tables", many))
    assert len(files_at(folder.root, "evil")) == 10_001


PROGRAMS = {
    "core.fsmonitor": "{}",
    "core.pager": "{}",
    "core.alternateRefsCommand": "{}",
    "core.sshCommand": "{}",
    "diff.external": "{}",
    "diff.x.textconv": "{}",
    "filter.x.smudge": "{}",
    "gpg.program": "{}",
    "log.showSignature": "true",
    "alias.ls-tree": "!{}",
    "alias.rev-parse": "!{}",
    "pager.ls-tree": "{}",
}


@pytest.fixture
def program(tmp_path):
    """A program that leaves a mark."""
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    file.chmod(0o755)
    return file


def test_git_starts_no_program(folder, tmp_path, program, monkeypatch):
    (folder.root / ".gitattributes").write_text("*.yml diff=x filter=x\n")
    git(folder.root, "add", "-A")
    git(folder.root, "commit", "-q", "-m", "attributes")
    hooks = folder.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(program, hooks / name)
    for setting, value in PROGRAMS.items():
        git(folder.root, "config", setting, value.format(program))
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH", "GIT_EDITOR", "PAGER"):
        monkeypatch.setenv(name, str(program))
    assert run(folder, "diff", "--base", "HEAD~1")[0] == 0
    assert run(folder, "ls", "--select", "git:HEAD~1")[0] == 0
    assert run(folder, "plan")[0] == 0
    assert not (tmp_path / "started").exists()


def test_the_environment_names_no_other_repository(folder, tmp_path, monkeypatch):
    other = ProjectFolder.create(tmp_path / "other")
    committed(other.root)
    mine = git(folder.root, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    assert work_tree(folder.root).commit == mine
    assert not (tmp_path / "trace").exists()


def test_a_bare_repository_inside_a_checkout_is_not_followed(folder, tmp_path, program):
    inner = folder.root / "inner"
    ProjectFolder.create(inner)
    for words in (["init", "-q", "--bare", str(inner)],):
        subprocess.run(["git", *words], check=True, capture_output=True)
    subprocess.run(["git", "--git-dir", str(inner), "config", "core.fsmonitor", str(program)], check=True)
    done = CliRunner().invoke(command_line, ["plan", "-p", str(inner)])
    assert done.exit_code == 2
    assert "has the files of a bare git repository" in " ".join(done.output.split())
    assert not (tmp_path / "started").exists()


def test_commits_are_whole_names_in_hex():
    assert commit_named("a" * 40) == "a" * 40
    assert commit_named("0" * 64) == "0" * 64
    for wrong in (
        "a" * 39,
        "a" * 41,
        "A" * 40,
        "a" * 40 + "\n",
        "--output=x",
        "HEAD",
        "",
        None,
        1,
        ["a" * 40],
    ):
        assert commit_named(wrong) is None


def applied_from(folder, value):
    """The table applied, its record saying that it was from that commit."""
    assert run(folder, "apply", "--auto-approve")[0] == 0
    (record,) = (folder.table / ".hoodie/.parquetry/applied").glob("*.json")
    document = json.loads(record.read_text()) | {"git_commit": value}
    record.write_text(json.dumps(document | {"digest": record_digest(document)}))
    folder.orders(description="Another one.")
    git(folder.root, "commit", "-qam", "second")


@pytest.mark.parametrize(
    "value",
    ["--output={}", "--exec={}", "-O{}", "HEAD", ":/first", "HEAD\x1b[2J", "x\n::error::y", 7, {"a": 1}],
)
def test_a_table_gives_git_no_options(folder, tmp_path, value):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    value = value.format(victim) if isinstance(value, str) else value
    applied_from(folder, value)
    assert read_applied(open_store(folder.table)).ref.git_commit is None
    for words in (
        ["plan"],
        ["plan", "--format", "json"],
        ["plan", "--due"],
        ["ls", "--select", "state:changed"],
    ):
        code, said = run(folder, *words)
        assert code == 0, said
        assert "\x1b" not in said
        assert "::error" not in said
    assert victim.read_text() == "precious"
    assert run(folder, "apply", "--auto-approve")[0] == 0


def test_git_itself_would_have_followed_it(folder, tmp_path):
    """The option that the table gives is one, where it stands before the end of options."""
    victim = tmp_path / "victim"
    git(folder.root, "log", "-1", f"--output={victim}")
    assert victim.exists()
    victim.unlink()
    assert asked(folder.root, "rev-list", "-1", revisions=(f"--output={victim}",)).code != 0
    assert not victim.exists()


def test_paths_are_no_options_and_no_magic(folder):
    (folder.root / "tables/--output=x.yml").write_text("a: 1\n")
    git(folder.root, "add", "-A")
    git(folder.root, "commit", "-qm", "odd")
    tree_ = work_tree(folder.root)
    assert len(tree_.commits_since(0, ("tables/--output=x.yml",), at_most=5)) == 1
    assert tree_.commits_since(0, ("--output=x",), at_most=5) == ()


def test_a_plan_passes_over_a_commit_that_cannot_be_read(folder, tmp_path):
    """Looking for what a squashed branch has applied, no commit of the history writes or ends the plan."""
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    git(folder.root, "add", "-A")
    git(folder.root, "commit", "-qm", "ignored")
    git(folder.root, "switch", "-qc", "feature")
    folder.orders(description="Reviewed.")
    git(folder.root, "commit", "-qam", "reviewed")
    assert run(folder, "apply", "--auto-approve")[0] == 0
    git(folder.root, "switch", "-q", "main")
    folder.orders(description="Reviewed.")
    git(folder.root, "commit", "-qam", "squashed")
    entries = [line.split() for line in git(folder.root, "ls-tree", "HEAD").splitlines()]
    evil_path = nested(folder.root, "tables/../../../evil.yml", blob(folder.root, SPEC))
    kept = [(mode.lstrip("0"), name, named) for mode, _, named, name in entries if name != "tables"]
    made = git(folder.root, "commit-tree", tree(folder.root, *kept, evil_path), "-p", "HEAD", "-m", "by hand")
    again = git(folder.root, "commit-tree", "HEAD^{tree}", "-p", made, "-m", "as before")
    git(folder.root, "update-ref", "refs/heads/main", again)
    folder.orders(description="The next.")
    before = everything(tmp_path)
    code, said = run(folder, "plan")
    assert (code, "SC502" in said) == (0, False)
    assert everything(tmp_path) == before


def test_nothing_is_written_for_a_revision(folder, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.mkdtemp", lambda *_, **__: pytest.fail("a folder was made"))
    folder.project(description="Another one.")
    assert PROJECT["name"] == "shop"
    assert run(folder, "diff", "--base", "HEAD")[0] == 0
    assert [*temporary.iterdir()] == []


def test_an_object_that_is_spoilt(folder):
    named = git(folder.root, "rev-parse", "HEAD:tables/orders.yml")
    file = folder.root / ".git/objects" / named[:2] / named[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-20])
    code, said = run(folder, "diff", "--base", "HEAD")
    assert (code, "git cannot read revision 'HEAD'" in said) == (2, True)
    assert "git fsck" in said
