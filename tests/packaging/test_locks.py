"""The locks of packages: they fit pyproject.toml, hold a hash of everything and no address; and their audit."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from parquetry.compiler.spec_files.scaffold import scaffold
from tests.interop import environment
from tests.support.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def tool(name):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


lock = tool("lock")
audit = tool("audit")
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[a-z0-9,-]+\])?==(?P<version>[^ ;]+)(?: ; (?P<marker>[^\\]+))? \\$"
)


def pins(group):
    """Versions by name, and the number of hashes of each."""
    found, name = {}, ""
    for line in lock.lock_file(group).read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            name = canonicalize_name(match["name"])
            found.setdefault(name, [match["version"], 0])
        elif re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?", line):
            found[name][1] += 1
        else:
            assert re.fullmatch(r" *#.*", line), line
    return found


def test_every_group_is_locked():
    groups = set(lock.GROUPS) - {lock.OF_PROJECTS}
    assert groups == set(PROJECT["dependency-groups"])
    assert {path.stem for path in lock.LOCKS.glob("*.txt")} == groups
    assert lock.stale(PROJECT, lock.GROUPS) == [], "run `make lock`"


@pytest.mark.parametrize("group", lock.GROUPS)
def test_a_lock_holds_versions_and_hashes_and_no_address(group):
    text = lock.lock_file(group).read_text(encoding="utf-8")
    assert re.search(r"://|index-url|find-links|\bhost\b", text) is None
    assert all(hashes >= 1 for _, hashes in pins(group).values())


@pytest.mark.parametrize("group", lock.GROUPS)
def test_what_is_locked_fits_what_is_required(group):
    required = list(PROJECT["dependency-groups"]["build" if group == lock.OF_PROJECTS else group])
    extras = PROJECT["project"]["optional-dependencies"]
    if group in (lock.WITH_PROJECT, lock.OF_PROJECTS):
        required += PROJECT["project"]["dependencies"]
        required += [
            line
            for extra, lines in extras.items()
            if group == lock.WITH_PROJECT or extra in lock.EXTRAS
            for line in lines
        ]
    locked = pins(group)
    for requirement in map(Requirement, required):
        version, _ = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


def test_a_lock_of_other_requirements_is_stale():
    changed = json.loads(json.dumps(PROJECT))
    changed["project"]["dependencies"].append("requests")
    assert lock.stale(changed, lock.GROUPS) == ["dev", "projects"]
    changed["dependency-groups"]["tools"] = ["uv"]
    assert lock.stale(changed, lock.GROUPS) == ["dev", "projects", "tools"]
    assert lock.stale(PROJECT, ["dev"], place=lambda _: Path("nowhere")) == ["dev"]


def test_new_projects_install_what_is_tested_and_all_that_it_needs():
    """Each package in the version of the development environment, with everything that it requires."""
    of_projects, tested = pins(lock.OF_PROJECTS), pins(lock.WITH_PROJECT) | pins("build")
    assert {name: version for name, (version, _) in of_projects.items()} == {
        name: tested[name][0] for name in of_projects
    }
    needed = {
        canonicalize_name(requirement.name)
        for name in of_projects
        for requirement in map(Requirement, _requires(name))
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    assert needed <= of_projects.keys()


def _requires(name):
    """What an installed package requires; nothing of one that other platforms need."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def test_a_new_project_has_all_of_it_by_hashes(tmp_path):
    """pip goes by hashes for a whole file: each line that names a package is followed by some."""
    scaffold(tmp_path)
    texts = [(tmp_path / name).read_text() for name in ("requirements-build.txt", "requirements.txt")]
    entries = re.split(r"\n(?=[^\s#])", "".join(f"\n{text.rstrip()}" for text in texts))[1:]
    assert {entry.partition("==")[0] for entry in entries} == pins(lock.OF_PROJECTS).keys()
    assert all(re.search(r"^ {4}--hash=sha256:[0-9a-f]{64}$", entry, re.MULTILINE) for entry in entries)
    assert texts[0].count("==") == len(PROJECT["dependency-groups"]["build"])


def test_stale_locks_are_told_with_the_remedy(capsys):
    assert lock.report_stale(["dev"]) == 1
    assert capsys.readouterr().err == "locks/dev.txt is stale; run `make lock`\n"
    assert lock.report_stale([]) == 0


VULNERABLE = {
    "name": "jinja2",
    "version": "3.1.2",
    "vulns": [
        {"id": "PYSEC-1", "aliases": ["CVE-2024-22195"], "fix_versions": ["3.1.3"], "description": "..."}
    ],
}
SOUND = {"name": "click", "version": "8.5.1", "vulns": []}
UNKNOWN = {
    "name": "jinja2",
    "skip_reason": "Dependency not found on PyPI and could not be audited: jinja2 (3.1.2)",
}


def said(*packages):
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_a_known_vulnerability_fails_unless_it_is_accepted(capsys):
    answer = audit.answer_in(said(VULNERABLE, SOUND, UNKNOWN))
    assert answer.known == 2
    assert audit.report([answer, answer], []) == 1
    line = "jinja2 3.1.2: PYSEC-1, CVE-2024-22195, fixed in 3.1.3: NOT ACCEPTED"
    assert capsys.readouterr().out.startswith(line)
    assert audit.report([answer], [{"id": "CVE-2024-22195", "reason": "no templates of strangers"}]) == 0
    assert capsys.readouterr().out.endswith(": accepted, no templates of strangers\n")


def test_an_entry_that_accepts_nothing_any_more_is_told(capsys):
    assert audit.report([audit.answer_in(said(SOUND))], [{"id": "CVE-1", "reason": "x"}]) == 0
    out = capsys.readouterr().out
    assert "accepts CVE-1, which no locked package has any more" in out
    assert "no known vulnerability" in out


@pytest.mark.parametrize("text", ["", "no such host", "[]", said(), said(UNKNOWN, UNKNOWN)])
def test_what_knows_no_package_is_no_database(text):
    assert audit.answer_in(text) is None


@pytest.mark.parametrize(
    ("on_github", "begins"),
    [("", "WARNING: "), ("true", "::warning title=Packages were not audited::")],
)
def test_without_a_database_a_warning_says_what_was_not_audited(monkeypatch, capsys, on_github, begins):
    asked = []
    monkeypatch.setenv("GITHUB_ACTIONS", on_github)
    monkeypatch.setattr(audit, "ask", lambda place, service: asked.append(service))
    assert audit.main() == 0
    assert asked == ["pypi", "osv"]
    told = capsys.readouterr().out
    text = "no advisory database reachable (pypi, osv); not audited: bench.txt, build.txt, "
    assert told.startswith(f"{begins}{text}")
    assert told.count("\n") == 1


def test_what_was_found_counts_where_the_database_is_lost_on_the_way(monkeypatch, capsys):
    answers = [audit.answer_in(said(VULNERABLE))]
    monkeypatch.setattr(audit, "ask", lambda place, service: answers.pop() if answers else None)
    assert audit.main() == 1
    assert "not audited: build.txt" in capsys.readouterr().out


def test_accepted_vulnerabilities_have_reasons():
    accepted = tomllib.loads(audit.ACCEPTED.read_text(encoding="utf-8")).get("accepted", [])
    assert all(set(entry) == {"id", "reason"} and entry["reason"] for entry in accepted)


def test_packages_of_npm_have_hashes_and_no_address():
    locked = json.loads((environment.YAML_LANGUAGE_SERVER / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in locked["packages"].items() if name}
    assert "node_modules/yaml-language-server" in packages
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not [name for name, package in packages.items() if "resolved" in package]


def test_a_jar_that_is_another_one_is_removed(tmp_path):
    jar = tmp_path / "x.jar"
    jar.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    environment.check_jar(jar, expected)
    jar.write_bytes(b"abd")
    with pytest.raises(SystemExit, match=f"not {expected}"):
        environment.check_jar(jar, expected)
    assert not jar.exists()
