"""The workflows of docs/how-to/review.md apply what was approved, and nothing else: their own shell is run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.project_folder import ProjectFolder
from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "how-to" / "review.md").read_text(encoding="utf-8")
BOT = {"login": "github-actions[bot]"}
PLAN, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MERGE, HEAD, OLD = "1" * 40, "2" * 40, "3" * 40
GH = """#!{python}
import json, os, re, subprocess, sys
state_file = os.environ["GH_STATE"]
state = json.load(open(state_file))
words = sys.argv[1:]
assert words.pop(0) == "api", words
fields, jq, method, place = {{}}, None, None, None
while words:
    word = words.pop(0)
    if word in ("-f", "-F"):
        name, _, value = words.pop(0).partition("=")
        fields[name] = open(value[1:]).read() if word == "-F" and value.startswith("@") else value
    elif word == "--jq":
        jq = words.pop(0)
    elif word == "--method":
        method = words.pop(0)
    elif word != "--paginate":
        place = word
method = method or ("POST" if fields else "GET")
place = place.removeprefix("repos/shop/lake/")
state["calls"].append([method, place])
parts = place.split("/")
answer = None
if method == "GET" and parts[0] == "collaborators":
    answer = {{"permission": state["permissions"].get(parts[1], "read")}}
elif method == "GET":
    answer = state["answers"].get(place, [])
elif parts[0] == "statuses":
    sha = parts[1]
    kept = state["answers"].setdefault(f"commits/{{sha}}/statuses", [])
    status = fields | {{"id": len(state["calls"]), "creator": {bot}, "created_at": state["now"]}}
    kept.insert(0, status)
elif method == "PATCH":
    for comments in state["answers"].values():
        for comment in comments:
            if str(comment.get("id")) == parts[2]:
                comment["body"] = fields["body"]
else:
    comment = {{"id": len(state["calls"]), "user": {bot}, "body": fields["body"]}}
    state["answers"].setdefault(place, []).append(comment)
json.dump(state, open(state_file, "w"))
if answer is not None:
    text = json.dumps(answer)
    print(subprocess.run(["jq", "-r", jq], input=text, capture_output=True, text=True).stdout if jq else text, end="")
"""
APPLIES = """#!{python}
import json, os, sys
with open(os.environ["APPLIED"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
"""

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the workflows use jq, as runners have it")


def workflows():
    blocks = re.findall(
        r"^```yaml fragment\n(# \.github/workflows/(\w+)\.yml\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    return {name: yaml.load(text, yaml.BaseLoader) for text, name in blocks}


def steps(name):
    (job,) = workflows()[name]["jobs"].values()
    return job["steps"]


def script(name):
    (found,) = (step["run"] for step in steps(name) if step.get("shell") == "bash")
    return found


class GitHub:
    """A repository on GitHub as `gh api` shows it, and what the workflows did to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir(parents=True)
        self.state_file, self.log = folder / "state.json", folder / "applied"
        self._program("gh", GH.format(python=sys.executable, bot=BOT))
        self.permissions = {"rita": "write", "adam": "write", "mona": "admin", "sam": "read"}
        self.write(
            {"calls": [], "permissions": self.permissions, "answers": {}, "now": "2026-01-01T10:00:00Z"}
        )

    def _program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def read(self):
        return json.loads(self.state_file.read_text())

    def write(self, state):
        self.state_file.write_text(json.dumps(state))

    def answers(self, **places):
        state = self.read()
        state["answers"].update(places)
        self.write(state)

    def run(self, workflow, *, cwd=None, **variables):
        given = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "GH_STATE": str(self.state_file),
            "APPLIED": str(self.log),
            "GITHUB_REPOSITORY": "shop/lake",
            "GITHUB_REF_NAME": "main",
            "GITHUB_SHA": MERGE,
            "TARGET": "prod",
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script(workflow)],
            cwd=cwd or self.folder,
            env=given | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def apply(self, **variables):
        """What was applied, as the words of the commands, and what was said."""
        self._program("parquetry", APPLIES.format(python=sys.executable))
        done = self.run("apply", **variables)
        applied = (
            [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        )
        assert (done.returncode == 0) == (bool(applied) or "nothing to apply" in done.stdout), done.stderr
        return applied, done.stdout + done.stderr


def pull_request(**changes):
    merged = {
        "number": 7,
        "merged_at": "2026-01-01T12:00:00Z",
        "merge_commit_sha": MERGE,
        "base": {"ref": "main"},
    }
    return merged | {"head": {"sha": HEAD}, "user": {"login": "adam"}} | changes


def status(
    description=PLAN, *, at="10:00:00", state="success", context="parquetry plan (prod)", number=1, by=BOT
):
    said = {"description": description, "state": state, "context": context, "creator": by, "id": number}
    return said | {"created_at": f"2026-01-01T{at}Z"}


def review(
    user="rita", *, state="APPROVED", of=HEAD, at="11:00:00", number=1, body="approved sha256:" + "c" * 64
):
    said = {"user": {"login": user}, "state": state, "commit_id": of, "id": number, "body": body}
    return said | {"submitted_at": f"2026-01-01T{at}Z"}


@pytest.fixture
def github(tmp_path):
    """A pull request of adam's that rita approved after it was planned, and that is merged."""
    made = GitHub(tmp_path)
    made.answers(
        **{
            f"commits/{MERGE}/pulls": [pull_request()],
            f"commits/{HEAD}/statuses": [status()],
            "pulls/7/reviews": [review()],
            "pulls/7/commits": [{"author": {"login": "adam"}, "committer": {"login": "web-flow"}}],
        }
    )
    return made


def test_what_was_approved_is_applied(github):
    applied, _ = github.apply()
    assert applied == [["apply", "--target", "prod", "--approved", PLAN]]


def refused(github, **answers):
    github.answers(**answers)
    applied, said = github.apply()
    assert applied == []
    return said


def test_a_push_after_the_approval_is_not_approved(github):
    pushed = pull_request(head={"sha": OLD})
    statuses = {f"commits/{OLD}/statuses": [status(OTHER, at="11:30:00")]}
    said = refused(github, **{f"commits/{MERGE}/pulls": [pushed]}, **statuses)
    assert f"nobody who may has approved {OLD}" in said


def test_a_plan_made_after_the_approval_is_not_approved(github):
    newer = [status(OTHER, at="11:00:01", number=2), status()]
    assert "since it was planned" in refused(github, **{f"commits/{HEAD}/statuses": newer})


@pytest.mark.parametrize("body", [f"approved {OTHER}", f"x\n```\nparquetry apply --approved {OTHER}\n```"])
def test_a_line_that_the_author_planted_is_not_read(github, body):
    planted = {"id": 1, "user": BOT, "body": f"<!-- parquetry:plan project=shop target=prod -->\n{body}"}
    github.answers(**{"issues/7/comments": [planted]})
    assert github.apply()[0] == [["apply", "--target", "prod", "--approved", PLAN]]
    assert not [call for call in github.read()["calls"] if "comments" in call[1]]


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [status("blocked", state="failure")],
        [status("blocked", state="failure", number=2), status()],
        [status(PLAN, state="failure")],
        [status(context="parquetry plan (dev)")],
        [status(context="parquetry plan (prod) ")],
        [status(by={"login": "adam"})],
        [status(f"{PLAN}; curl evil")],
        [status(f"{PLAN}\n{OTHER}")],
        [status("")],
    ],
)
def test_a_plan_that_is_blocked_or_another_targets_or_not_the_bots_is_none(github, statuses):
    refused(github, **{f"commits/{HEAD}/statuses": statuses})


@pytest.mark.parametrize(
    "reviews",
    [
        [],
        [review("adam")],
        [review("sam")],
        [review("stranger")],
        [review(of=OLD)],
        [review(state="COMMENTED")],
        [review(), review(state="DISMISSED", number=2)],
        [review(), review(state="CHANGES_REQUESTED", number=2)],
        [review(at="09:59:59")],
        [review() | {"user": None}],
    ],
)
def test_an_approval_is_somebody_elses_who_may_and_of_that_commit(github, reviews):
    refused(github, **{"pulls/7/reviews": reviews})


def test_who_wrote_a_commit_of_it_does_not_approve_it(github):
    commits = [
        {"author": {"login": "adam"}, "committer": None},
        {"author": {"login": "rita"}, "committer": {}},
    ]
    refused(github, **{"pulls/7/commits": commits})
    github.answers(**{"pulls/7/reviews": [review(), review("mona", number=2), review("sam", number=3)]})
    assert github.apply()[0] == [["apply", "--target", "prod", "--approved", PLAN]]


@pytest.mark.parametrize(
    "pull",
    [
        pull_request(merged_at=None),
        pull_request(merge_commit_sha=OLD),
        pull_request(base={"ref": "feature"}),
    ],
)
def test_a_commit_that_no_approved_pull_request_became_is_not_applied(github, pull):
    assert "without a pull request" in refused(github, **{f"commits/{MERGE}/pulls": [pull]})
    refused(github, **{f"commits/{MERGE}/pulls": []})


def test_nothing_to_apply_needs_no_approval(github):
    github.answers(**{f"commits/{HEAD}/statuses": [status("no changes")], "pulls/7/reviews": []})
    assert github.apply()[0] == []


@pytest.fixture
def repository(tmp_path):
    """A clone of a base with a project, whose origin has a pull request, number 7."""
    origin = tmp_path / "origin"
    shop = ProjectFolder.create(origin)
    targets = {"dev": {"warehouse": "./warehouse"}, "prod": {"warehouse": str(tmp_path / "lake")}}
    shop.project(targets=targets)
    git(origin, "init", "-q")
    commit(origin)
    git(origin, "checkout", "-q", "-b", "pull")
    return shop, tmp_path


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "specs")
    return git(folder, "rev-parse", "HEAD")


def planned(github, repository, *, target, name):
    """Run the workflow on the pull request's newest commit, as GitHub would."""
    shop, folder = repository
    head = commit(shop.root)
    git(shop.root, "update-ref", "refs/pull/7/head", head)
    git(folder, "clone", "-q", "--branch", "main", str(shop.root), name)
    (folder / f"{name}-temp").mkdir()
    path = f"{github.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = github.run(
        "plan",
        cwd=folder / name,
        PATH=path,
        PULL="7",
        HEAD_SHA=head,
        TARGET=target,
        RUNNER_TEMP=str(folder / f"{name}-temp"),
        PARQUETRY_UNTRUSTED="1",
    )
    state = github.read()["answers"]
    return done, state[f"commits/{head}/statuses"][0], state["issues/7/comments"]


def test_plans_are_statuses_of_their_commit_and_a_comment_for_each_target(tmp_path, repository):
    github, (shop, folder) = GitHub(tmp_path / "hub"), repository
    trap = f"<!-- parquetry:plan project=shop target=prod -->\napproved {OTHER}"
    github.answers(**{"issues/7/comments": [{"id": 1000, "user": {"login": "adam"}, "body": trap}]})
    shop.orders(description=f"One row per order.\n{trap}")
    for round_number, target in enumerate(("dev", "prod", "dev")):
        done, found, comments = planned(github, repository, target=target, name=f"run{round_number}")
        assert done.returncode == 0, done.stderr
        saved = json.loads((folder / f"run{round_number}-temp" / "plan.json").read_text())
        assert found["description"] == saved["plan_id"]
        assert (found["state"], found["context"]) == ("success", f"parquetry plan ({target})")
        shop.orders(description=f"Round {round_number}.")
    firsts = [comment["body"].splitlines()[0] for comment in comments]
    marker = "<!-- parquetry:plan project=shop target={} -->"
    assert firsts == [marker.format("prod"), marker.format("dev"), marker.format("prod")]
    assert comments[0]["body"] == trap


def test_a_blocked_plan_has_a_failed_status_and_no_id(tmp_path, repository):
    github, (shop, _) = GitHub(tmp_path / "hub"), repository
    shop.orders(location="/etc", description=f"approved {OTHER}")
    done, found, comments = planned(github, repository, target="prod", name="run")
    assert done.returncode == 1
    assert (found["state"], found["description"]) == ("failure", "blocked")
    assert "SC507" in comments[0]["body"]
    assert "--approved" not in comments[0]["body"]


def test_no_expression_is_part_of_a_script_and_actions_are_pinned():
    found = workflows()
    assert set(found) == {"plan", "apply"}
    for name in found:
        for step in steps(name):
            assert "${{" not in step.get("run", "")
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))
            assert "ref" not in step.get("with", {})
    assert found["plan"]["on"] == "pull_request_target"
    assert set(found["plan"]["permissions"].values()) == {"read", "write"}
    assert set(found["apply"]["permissions"].values()) == {"read"}
