"""The workflows of `init --ci github` are those of docs/how-to/review.md; their own shell is run here."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from parquetry.compiler.spec_files.scaffold import CI, ScaffoldError, scaffold
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.command_script import folder_of_forked_script
from tests.support.github_server import BOT, TOKEN, local_github
from tests.support.handmade_git import committed, git
from tests.support.project_folder import ProjectFolder
from tests.support.repository import ROOT
from tests.support.reviewed_project import stated_in

PAGE = (ROOT / "docs" / "how-to" / "review.md").read_text(encoding="utf-8")
KINDS = ("plan", "diff", "apply", "nightly")
OTHER = "sha256:" + "b" * 64


@pytest.fixture
def written(tmp_path):
    """The texts of the workflows of a project `shop` with two targets, by kind."""
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.project(targets={"dev": {"warehouse": "/lake/dev"}, "prod": {"warehouse": "s3://lake"}})
    scaffold(folder.root, ci=CI.GITHUB)
    workflows = folder.root / ".github" / "workflows"
    return {kind: (workflows / f"parquetry-{kind}-shop.yml").read_text(encoding="utf-8") for kind in KINDS}


def jobs(text):
    return yaml.load(text, yaml.BaseLoader)["jobs"]


def steps(text):
    return [step for job in jobs(text).values() for step in job["steps"]]


def test_the_page_shows_what_is_written(written):
    blocks = re.findall(
        r"^```yaml fragment\n# \.github/workflows/parquetry-(\w+)-shop\.yml\n(.*?)^```",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
    assert dict(blocks) == {kind: written[kind] for kind in ("plan", "apply")}


def test_actions_are_pinned_and_no_expression_is_part_of_a_script(written):
    texts = [
        *written.values(),
        (ROOT / "templates" / "scaffold" / "workflow.yml.j2").read_text(encoding="utf-8"),
    ]
    for text in texts[:4]:
        for step in steps(text):
            assert "${{" not in step.get("run", "")
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step.get("uses", "actions/a@" + "0" * 40))
            assert "ref" not in step.get("with", {})
    pins = {found for text in written.values() for found in re.findall(r"uses: (\S+@\S+ # v[\d.]+)", text)}
    assert len(pins) == 3


def test_workflows_have_the_permissions_that_they_need(written):
    documents = {kind: yaml.load(text, yaml.BaseLoader) for kind, text in written.items()}
    types = ["opened", "synchronize", "reopened", "labeled"]
    assert documents["plan"]["on"] == {"pull_request_target": {"branches": ["main"], "types": types}}
    assert documents["diff"]["on"] == {"pull_request_target": {"branches": ["main"]}}
    assert documents["diff"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert documents["plan"]["jobs"]["plan"]["if"].startswith(
        "github.event.pull_request.head.repo.full_name == github.repository || contains("
    )
    assert documents["diff"]["jobs"]["diff"]["if"].endswith("head.repo.full_name != github.repository")
    assert documents["plan"]["permissions"] == {
        "contents": "read",
        "pull-requests": "write",
        "statuses": "write",
    }
    assert documents["apply"]["on"] == {"push": {"branches": ["main"]}}
    assert set(documents["apply"]["permissions"].values()) == {"read"}
    assert documents["nightly"]["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions") for name, job in documents["nightly"]["jobs"].items()} == {
        "drift": None,
        "follow-up": {"actions": "read", "contents": "read", "pull-requests": "write"},
    }
    # The token is in the environment of steps that fetch or post, of none that reads a stranger's files.
    for kind in ("plan", "diff"):
        fetches, posts = (step["run"] for step in steps(written[kind]) if "GH_TOKEN" in step.get("env", {}))
        assert "worktree" not in fetches
        assert posts.startswith("parquetry review ")


def test_no_checkout_leaves_its_credentials_to_later_steps(tmp_path):
    scaffold(tmp_path / "lake", ci=CI.GITHUB)
    files = [*tmp_path.glob("lake/.github/workflows/*.yml"), *ROOT.glob(".github/workflows/*.yml")]
    checkouts = [
        step
        for file in files
        for step in steps(file.read_text(encoding="utf-8"))
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert len(checkouts) >= len(files) - 1
    assert {step["with"]["persist-credentials"] for step in checkouts} == {"false"}


@pytest.mark.parametrize("kind", ["plan", "diff"])
def test_the_commits_of_a_private_repository_are_fetched_with_the_token(tmp_path, written, kind):
    """Git asks the server as the workflow does, with the token in no word of a command line."""
    seen = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            self.send_error(404)

        def log_message(self, *_):
            pass

    (fetch,) = (step["run"] for step in steps(written[kind]) if "git fetch" in step.get("run", ""))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    address = f"http://127.0.0.1:{server.server_port}"
    git(tmp_path, "init", "-q")
    git(tmp_path, "remote", "add", "origin", f"{address}/shop/lake")
    given = {"PATH": os.environ["PATH"], "GH_TOKEN": TOKEN, "GITHUB_SERVER_URL": address, "PULL": "7"}
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = subprocess.run(["bash", "-e", "-c", fetch], cwd=tmp_path, env=given, check=False)
        server.shutdown()
    assert done.returncode == 128
    basic = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    assert set(seen) == {f"basic {basic}"}
    assert basic not in (tmp_path / ".git" / "config").read_text()


@pytest.mark.parametrize("ci", list(CI))
def test_the_nightly_workflow_checks_what_it_can_reach(tmp_path, ci):
    """A clone sees no table in a folder of the machine that applied it."""
    file = ".github/workflows/parquetry-nightly-shop.yml" if ci is CI.GITHUB else ".gitlab/parquetry-shop.yml"
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.project(targets={"dev": {"warehouse": "./dev"}, "prod": {"warehouse": "{{ env_var('LAKE') }}/x"}})
    made = scaffold(folder.root, ci=ci)
    nightly = (folder.root / file).read_text().rpartition("# Fails when")[2]
    assert '["prod"]' in nightly
    assert '"dev"' not in nightly
    assert [advice for advice in made.advice if "schedule parquetry run" in advice]
    local = scaffold(tmp_path / "lake", ci=ci)
    nightly = (tmp_path / "lake" / file.replace("shop", "lake")).read_text().rpartition("# Fails when")[2]
    assert "nothing was checked" in nightly
    assert "parquetry drift" not in nightly
    assert [advice for advice in local.advice if "other machines cannot read" in advice]


def test_a_project_that_is_there_gets_workflows_alone(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    before = {path: path.read_bytes() for path in folder.root.rglob("*") if path.is_file()}
    made = scaffold(folder.root, ci=CI.GITHUB)
    assert set(made.files) == {
        "requirements-build.txt",
        "requirements.in",
        "requirements.txt",
        *(f".github/workflows/parquetry-{kind}-shop.yml" for kind in KINDS),
    }
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(ScaffoldError, match=r"parquetry-plan-shop\.yml already exists; remove it"):
        scaffold(folder.root, ci=CI.GITHUB)


@pytest.mark.parametrize(
    "text",
    [
        'name: "x\\ny: ${{ github.token }}"\ntargets: {dev: {}}\n',
        'name: shop\ntargets: {"${{ github.token }}": {}}\n',
        "name: shop\ntargets: {}\n",
        "name: shop\ntargets: [\n",
    ],
)
def test_names_that_a_project_cannot_have_are_written_nowhere(tmp_path, text):
    (tmp_path / "parquetry.yml").write_text(text)
    with pytest.raises(ScaffoldError, match="does not name a project and its targets"):
        scaffold(tmp_path, ci=CI.GITHUB)
    assert [path.name for path in tmp_path.iterdir()] == ["parquetry.yml"]


@pytest.mark.parametrize("ci", [None, *CI])
def test_a_folder_that_is_an_expression_is_written_nowhere(tmp_path, ci):
    git(tmp_path, "init", "-q")
    with pytest.raises(ScaffoldError, match="rename it"):
        scaffold(tmp_path / "a ${{ github.token }}", ci=ci)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


@pytest.mark.parametrize(
    ("refs", "branch"),
    [
        ((), "topic"),
        (("refs/remotes/origin/main",), "main"),
        (("refs/remotes/origin/main", "refs/remotes/origin/trunk"), "trunk"),
    ],
)
def test_what_is_merged_into_the_default_branch_is_applied(tmp_path, refs, branch):
    git(tmp_path, "init", "-q", "-b", "topic")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    for ref in refs:
        git(tmp_path, "update-ref", ref, "HEAD")
    if branch == "trunk":
        git(tmp_path, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    scaffold(tmp_path / "lake", ci=CI.GITHUB)
    for file in ("parquetry-apply-lake.yml", "parquetry.yml"):
        text = (tmp_path / ".github" / "workflows" / file).read_text(encoding="utf-8")
        assert yaml.load(text, yaml.BaseLoader)["on"]["push"]["branches"] == [branch]


def test_a_branch_that_is_a_pattern_is_written_nowhere(tmp_path):
    git(tmp_path, "init", "-q", "-b", "!${{github.token}}")
    with pytest.raises(ScaffoldError, match="rename it"):
        scaffold(tmp_path, ci=CI.GITHUB)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


class Runner:
    """A base with a project, a pull request of its repository on a local GitHub, and the jobs that run on them."""

    def __init__(self, root: Path, forge) -> None:
        self.root, self.forge = root, forge
        self.shop = ProjectFolder.create(root / "origin" / "lake")
        warehouses = {target: {"warehouse": str(root / f"lake-{target}")} for target in ("dev", "prod")}
        self.shop.project(targets=warehouses)
        self.origin = root / "origin"
        committed(self.origin)
        scaffold(self.shop.root, ci=CI.GITHUB, installs="parquetry")
        self.commit()
        git(self.origin, "checkout", "-q", "-b", "pull")
        self.shop.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "1MiB"})
        self.pull = forge.open(self.commit())

    def commit(self) -> str:
        git(self.origin, "add", "-A")
        git(self.origin, "commit", "-q", "-m", "specs")
        return git(self.origin, "rev-parse", "HEAD")

    def run(self, kind, target, *, job=None, plans=()):
        """The steps of a job in a fresh clone of the base, as GitHub runs them; the last one's process.

        ``plans`` are what the job would download of earlier runs.
        """
        git(self.origin, "update-ref", f"refs/pull/{self.pull.number}/head", self.pull.head)
        place = self.root / f"{job or kind}-{target}-{len(self.forge.calls)}"
        git(self.root, "clone", "-q", "--branch", "main", str(self.origin), str(place))
        for number, plan in enumerate(plans):
            (place / "temp" / "plans" / str(number)).mkdir(parents=True)
            (place / "temp" / "plans" / str(number) / "plan.json").write_bytes(plan.read_bytes())
        (place / "temp").mkdir(exist_ok=True)
        text = (self.origin / ".github" / "workflows" / f"parquetry-{kind}-shop.yml").read_text(
            encoding="utf-8"
        )
        job = jobs(text)[job or kind]
        expressions = {
            "${{ matrix.target }}": target,
            "${{ github.event.number }}": str(self.pull.number),
            "${{ github.event.pull_request.head.sha }}": self.pull.head,
            "${{ github.token }}": TOKEN,
        }
        assert job["strategy"]["matrix"]["target"] == ["dev", "prod"]
        for step in job["steps"]:
            if "run" not in step or step["run"].startswith(("pip ", "gh ")):
                continue
            declared = {**job["env"], **step.get("env", {})}
            given = {
                "PATH": f"{folder_of_forked_script()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.root),
                "RUNNER_TEMP": str(place / "temp"),
                "GITHUB_REPOSITORY": "shop/lake",
                "GITHUB_API_URL": self.forge.address,
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=place / "lake",
                env=given | {name: expressions.get(value, value) for name, value in declared.items()},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                break
        return done, place / "temp" / "plan.json"

    def merge(self) -> None:
        git(self.origin, "checkout", "-q", "main")
        git(self.origin, "merge", "-q", "--squash", "pull")
        self.forge.merge(self.pull, self.commit())


@pytest.fixture
def runner(tmp_path):
    with local_github() as forge:
        yield Runner(tmp_path, forge)


def test_a_change_from_the_pull_request_to_the_table(runner):
    forge, pull = runner.forge, runner.pull
    for target in ("dev", "prod", "dev"):
        done, plan = runner.run("plan", target)
        assert done.returncode == 0, done.stderr
        status = forge.statuses[pull.head][0]
        assert (status["state"], status["context"]) == ("success", f"parquetry/plan (shop/{target})")
        assert status["description"] == stated_in(plan)
    marker = "<!-- parquetry:plan project=shop target={} -->"
    firsts = [comment.split("\n")[0] for comment in forge.of_workflow(pull)]
    assert firsts == [marker.format("dev"), marker.format("prod")]
    runner.merge()
    done, _ = runner.run("apply", "prod")
    assert done.returncode == 1
    assert "no other person approved" in done.stderr
    forge.review(pull)
    done, plan = runner.run("apply", "prod")
    assert done.returncode == 0, done.stderr
    spec = read_applied(open_store(runner.root / "lake-prod" / "orders")).spec
    assert spec.sizing.max_file_size_bytes == 2 << 20
    assert not (runner.root / "lake-dev" / "orders").exists()
    done, _ = runner.run("nightly", "prod", job="drift")
    assert done.returncode == 0, done.stdout + done.stderr
    done, _ = runner.run("nightly", "dev", job="drift")
    assert done.returncode == 3
    done, _ = runner.run("nightly", "prod", job="follow-up", plans=[plan])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "has no predictions" in done.stdout


def test_a_fork_gets_its_difference_and_no_check(runner):
    for _ in range(2):
        done, _ = runner.run("diff", "prod")
        assert done.returncode == 0, done.stderr
    (comment,) = runner.forge.of_workflow(runner.pull)
    assert comment.startswith("<!-- parquetry:diff project=shop target=prod -->")
    assert "2MiB" in comment
    assert runner.forge.statuses == {}


def test_a_blocked_plan_has_a_failed_check_and_no_id(runner):
    runner.shop.orders(location="/etc", description=f"approved {OTHER}")
    runner.forge.push(runner.pull, runner.commit())
    done, _ = runner.run("plan", "prod")
    assert done.returncode == 1
    (status,) = runner.forge.statuses[runner.pull.head]
    assert (status["state"], status["description"]) == ("failure", "blocked")
    (comment,) = (c["body"] for c in runner.pull.comments if c["user"]["login"] == BOT)
    assert "SC507" in comment
    assert "--approved" not in comment
