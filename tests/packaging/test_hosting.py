"""The hosted workflow and the hooks run what the repository has, with no more rights than they need."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def targets():
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_alone_and_pins_its_actions(workflow):
    assert read(workflow)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (.+)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_the_workflow_runs_what_anybody_can_run():
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    ran = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert ran == {"run": [".ci/run"], "fast": ["make fast PYTHON=python"]}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_what_ci_and_hooks_make_is_there():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    commands = [
        *re.findall(r"\bmake [a-z -]+$", script, flags=re.MULTILINE),
        *(hook["entry"] for hook in hooks),
    ]
    made = {word for command in commands if command.startswith("make ") for word in shlex.split(command)[1:]}
    assert made
    assert made <= targets()


def test_hooks_are_of_this_repository():
    assert {repo["repo"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"]} == {"local"}


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_a_form_for_issues_has_what_the_host_asks_for(form):
    content = read(form)
    assert {"name", "description", "body"} <= set(content)
    fields = [item for item in content["body"] if item["type"] != "markdown"]
    assert fields
    assert all(item["id"] and item["attributes"]["label"] for item in fields)
