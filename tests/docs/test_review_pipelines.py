"""The pipeline of `init --ci gitlab` fits GitLab's schema; its own shell is run here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from parquetry.compiler.spec_files.scaffold import CI, ScaffoldError, scaffold
from parquetry.project.yaml.fmt import format_project
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.command_script import folder_of_forked_script
from tests.support.github_server import TOKEN
from tests.support.gitlab_server import BOT, PROJECT, local_gitlab
from tests.support.handmade_git import committed, git
from tests.support.project_folder import ProjectFolder
from tests.support.repository import TESTS

SCHEMA = json.loads((TESTS / "support" / "gitlab_ci_schema.json").read_text(encoding="utf-8"))["schema"]


@pytest.fixture
def written(tmp_path):
    """The pipeline of a project `shop` with two targets, and the text of its jobs."""
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.project(targets={"dev": {"warehouse": "/lake/dev"}, "prod": {"warehouse": "s3://lake"}})
    scaffold(folder.root, ci=CI.GITLAB)
    return (folder.root / ".gitlab/parquetry-shop.yml").read_text(encoding="utf-8")


def jobs(text):
    """The jobs by name, with what they extend."""
    document = yaml.load(text, yaml.BaseLoader)

    def whole(name):
        job = document[name]
        above = whole(job["extends"]) if "extends" in job else {}
        return above | job

    return {name: whole(name) for name in document if not name.startswith(".")}


def _kind(name):
    return re.fullmatch(r"parquetry-(.+)-shop(-after-a-\w+)?", name)[1]


def test_the_pipeline_fits_gitlabs_schema(tmp_path):
    git(tmp_path, "init", "-q")
    for name in ("lake", "data/my lake"):
        made = scaffold(tmp_path / name, ci=CI.GITLAB)
        assert not [file for file in made.files if ".github" in file]
    files = [tmp_path / ".gitlab-ci.yml", *tmp_path.glob(".gitlab/*.yml")]
    assert len(files) == 3
    validator = Draft7Validator(SCHEMA)
    for file in files:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(document)] == []
    document["parquetry-plan-lake"] = {"scripts": ["x"]}
    assert not validator.is_valid(document)


def test_each_job_has_its_own_pipeline(written):
    rules = {name: job["rules"][0] for name, job in jobs(written).items()}
    main = '$CI_COMMIT_BRANCH == "main"'
    on = {
        "check": '$CI_PIPELINE_SOURCE == "merge_request_event"',
        "plan": f'$CI_PIPELINE_SOURCE == "schedule" && $CI_PIPELINE_SCHEDULE_DESCRIPTION == "parquetry-plan" && {main}',
        "apply": f'$CI_PIPELINE_SOURCE == "push" && {main}',
        "follow-up": f'$CI_PIPELINE_SOURCE == "push" && {main}',
        "nightly": '$CI_PIPELINE_SOURCE == "schedule" && $CI_PIPELINE_SCHEDULE_DESCRIPTION == "parquetry-nightly" && '
        f"{main}",
    }
    assert {_kind(name): rule["if"] for name, rule in rules.items()} == on
    needed = {name for job in jobs(written).values() for name in job.get("needs", ())}
    assert needed == {"parquetry-apply-shop"} <= set(rules)
    assert all(job["parallel"]["matrix"] == [{"TARGET": ["dev", "prod"]}] for job in jobs(written).values())
    assert all(re.fullmatch(r"python:3\.11\.\d+-\w+", job["image"]) for job in jobs(written).values())


def test_tokens_are_where_they_are_needed(written):
    """A pipeline of a merge request is its author's; the job that plans hides its token from the plan."""
    scripts = {_kind(name): "\n".join(job["script"]) for name, job in jobs(written).items()}
    assert "TOKEN" not in scripts["check"]
    assert "TOKEN" not in scripts["nightly"]
    assert "PARQUETRY_POST_TOKEN" not in scripts["apply"]
    assert "PARQUETRY_READ_TOKEN" not in scripts["follow-up"]
    assert "env -u TOKEN -u CI_JOB_TOKEN PARQUETRY_UNTRUSTED=1 parquetry plan " in scripts["plan"]


def test_a_pipeline_that_is_there_is_left_alone(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    (tmp_path / ".gitlab-ci.yml").write_text("stages: [mine]\n")
    made = scaffold(folder.root, ci=CI.GITLAB)
    requirements = {"requirements.txt", "requirements.in", "requirements-build.txt"}
    assert set(made.files) == {*requirements, ".gitlab/parquetry-shop.yml"}
    assert ".gitlab-ci.yml already exists: include .gitlab/parquetry-*.yml in it" in made.advice
    assert (tmp_path / ".gitlab-ci.yml").read_text() == "stages: [mine]\n"
    with pytest.raises(ScaffoldError, match=r"parquetry-shop\.yml already exists; remove it"):
        scaffold(folder.root, ci=CI.GITLAB)


def test_a_second_project_needs_no_other_pipeline(tmp_path):
    git(tmp_path, "init", "-q")
    scaffold(tmp_path / "lake", ci=CI.GITLAB)
    assert not [line for line in scaffold(tmp_path / "pond", ci=CI.GITLAB).advice if "include" in line]


class Runner:
    """A base with a project, merge requests on a local GitLab, and the jobs that run on `main`."""

    def __init__(self, root: Path, forge) -> None:
        self.root, self.forge = root, forge
        self.shop = ProjectFolder.create(root / "origin" / "my lake")
        warehouses = {target: {"warehouse": str(root / f"lake-{target}")} for target in ("dev", "prod")}
        self.shop.project(targets=warehouses)
        self.origin = root / "origin"
        committed(self.origin)
        scaffold(self.shop.root, ci=CI.GITLAB, installs="parquetry")
        self.commit()
        self.pull = self.propose("2MiB")

    def commit(self) -> str:
        git(self.origin, "add", "-A")
        git(self.origin, "commit", "-q", "-m", "specs")
        return git(self.origin, "rev-parse", "HEAD")

    def propose(self, size, **settings):
        git(self.origin, "checkout", "-q", "-B", f"size-{size}", "main")
        self.shop.orders(sizing={"max_file_size": size, "small_file_limit": "1MiB"}, **settings)
        format_project(self.shop.root, write=True)
        pull = self.forge.open(self.commit())
        git(self.origin, "update-ref", f"refs/merge-requests/{pull.number}/head", pull.head)
        return pull

    def run(self, kind, target, *, ref="main", **given):
        """A job in a fresh clone, as GitLab runs it; its process, and the clone."""
        place = self.root / f"{kind}-{target}-{len(self.forge.calls)}"
        git(self.root, "clone", "-q", "--branch", ref, str(self.origin), str(place))
        text = (place / ".gitlab" / "parquetry-shop.yml").read_text(encoding="utf-8")
        job = next(job for name, job in jobs(text).items() if _kind(name) == kind)
        lines = [line for line in (*job["before_script"], *job["script"]) if not line.startswith("pip ")]
        environment = {
            "PATH": f"{folder_of_forked_script()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.root),
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": str(PROJECT),
            "CI_API_V4_URL": self.forge.address,
            "CI_PROJECT_DIR": str(place),
            "CI_JOB_TOKEN": "glcbt-of-the-job",
            "TARGET": target,
        }
        secrets = {
            "PARQUETRY_CREATOR": BOT,
            "PARQUETRY_POST_TOKEN": TOKEN,
            "PARQUETRY_READ_TOKEN": "glpat-that-only-reads",
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(lines)],
            cwd=place,
            env=environment | (secrets if ref == "main" else {}) | job["variables"] | given,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, place

    def merge(self, pull) -> None:
        git(self.origin, "checkout", "-q", "main")
        git(self.origin, "merge", "-q", "--no-ff", "-m", "merged", pull.head)
        self.forge.merge(pull, git(self.origin, "rev-parse", "HEAD"))


@pytest.fixture
def runner(tmp_path):
    with local_gitlab() as forge:
        forge.people["reader"] = "read"
        forge.tokens["glpat-that-only-reads"] = "reader"
        forge.readers.add("glpat-that-only-reads")
        yield Runner(tmp_path, forge)


def statuses(forge, pull):
    return [(said["context"], said["state"]) for said in forge.statuses.get(pull.head, [])]


def test_a_change_from_the_merge_request_to_the_table(runner):
    forge, pull = runner.forge, runner.pull
    done, _ = runner.run("check", "prod", ref="size-2MiB", CI_MERGE_REQUEST_DIFF_BASE_SHA="origin/main")
    assert done.returncode == 0, done.stdout + done.stderr
    done, _ = runner.run("plan", "prod")
    assert done.returncode == 0, done.stdout + done.stderr
    assert statuses(forge, pull) == [("parquetry/plan (shop/prod)", "success")]
    assert len(forge.of_workflow(pull)) == 1
    runner.merge(pull)
    done, _ = runner.run("apply", "prod")
    assert done.returncode == 1
    assert "no other person approved" in done.stderr
    forge.review(pull)
    done, place = runner.run("apply", "prod")
    assert done.returncode == 0, done.stdout + done.stderr
    spec = read_applied(open_store(runner.root / "lake-prod" / "orders")).spec
    assert spec.sizing.max_file_size_bytes == 2 << 20
    assert not (runner.root / "lake-dev" / "orders").exists()
    plan = place / "plan-shop-prod.json"
    done, later = runner.run("nightly", "prod")
    assert done.returncode == 0, done.stdout + done.stderr
    (later / plan.name).write_bytes(plan.read_bytes())
    done, _ = runner.run("follow-up", "prod", CI_PROJECT_DIR=str(later))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "has no predictions" in done.stdout


def test_merge_requests_of_all_kinds_in_one_run(runner):
    """A fork has its difference and no check; a plan that is blocked or fails stops no other; no branch sees a token."""
    forge, good = runner.forge, runner.pull
    bad = runner.propose("3MiB", location="/etc")
    worse = runner.propose("4MiB", name="../orders")
    fork = runner.propose("5MiB")
    fork.is_fork = True
    names = ("TOKEN", "PARQUETRY_POST_TOKEN", "PARQUETRY_READ_TOKEN", "CI_JOB_TOKEN")
    curious = runner.propose(
        "6MiB", description=" ".join(f"{{{{ env('{name}', 'none') }}}}" for name in names)
    )
    done, _ = runner.run("plan", "prod")
    assert done.returncode == 1
    check = "parquetry/plan (shop/prod)"
    assert statuses(forge, bad) == [(check, "failure")]
    assert statuses(forge, good) == [(check, "success")]
    assert statuses(forge, worse) == statuses(forge, fork) == []
    (comment,) = forge.of_workflow(fork)
    assert comment.startswith("<!-- parquetry:diff project=shop target=prod -->")
    assert "5MiB" in comment
    said = done.stdout + done.stderr + "".join(comment["body"] for comment in curious.comments)
    assert not [token for token in (TOKEN, "glcbt-of-the-job", "glpat-that-only-reads") if token in said]
