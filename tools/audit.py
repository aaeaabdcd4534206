"""Check the locked packages against advisory databases (PyPI's, or else OSV's) with pip-audit.

Exits with 1 if a package has a known vulnerability that `locks/accepted.toml` does not accept with a reason.
If no database can be reached, warns and exits with 0, as a missing answer is not a finding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = ROOT / "locks" / "accepted.toml"
SERVICES = ("pypi", "osv")
_SECONDS = 300


@dataclass(frozen=True)
class Advisory:
    """A known vulnerability of a locked package."""

    package: str
    version: str
    names: tuple[str, ...]
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        fix = f"fixed in {', '.join(self.fixed)}" if self.fixed else "not fixed yet"
        return f"{self.package} {self.version}: {', '.join(self.names)}, {fix}"


@dataclass(frozen=True)
class Answer:
    """A database's answer about one lock: the number of packages it knows, and their vulnerabilities."""

    known: int
    advisories: tuple[Advisory, ...]


def main() -> int:
    """Return 1 if there is a vulnerability that is not accepted."""
    accepted = tomllib.loads(ACCEPTED.read_text(encoding="utf-8")).get("accepted", [])
    answers = []
    locks = sorted((ROOT / "locks").glob("*.txt"))
    for place, lock in enumerate(locks):
        answer = next((found for service in SERVICES if (found := ask(lock, service)) is not None), None)
        if answer is None:
            left = ", ".join(missed.name for missed in locks[place:])
            warn(f"no advisory database reachable ({', '.join(SERVICES)}); not audited: {left}")
            break
        print(f"locks/{lock.name}: {answer.known} packages looked up", flush=True)
        answers.append(answer)
    return report(answers, accepted) if answers else 0


def warn(text: str) -> None:
    """Print a warning; on GitHub as an annotation, which the page of the run shows above all logs."""
    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    print(
        f"::warning title=Packages were not audited::{text}" if on_github else f"WARNING: {text}", flush=True
    )


def ask(lock: Path, service: str) -> Answer | None:
    """Return a service's answer about the packages of a lock, or None if it cannot be reached."""
    command = [
        str(Path(sys.executable).with_name("pip-audit")),
        "--requirement",
        str(lock),
        "--require-hashes",
        "--disable-pip",
    ]
    command += [
        "--vulnerability-service",
        service,
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        "15",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return answer_in(done.stdout)


def answer_in(output: str) -> Answer | None:
    """Return the answer in pip-audit's output, or None if it knows none of the packages.

    A package mirror without advisories knows none.
    """
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    known = [package for package in packages if "skip_reason" not in package]
    if not known:
        return None
    return Answer(
        len(known), tuple(_advisory(package, entry) for package in known for entry in package["vulns"])
    )


def report(answers: Iterable[Answer], accepted: Sequence[Mapping[str, Any]]) -> int:
    """Print the vulnerabilities, and return 1 if one is not accepted."""
    found = {advisory for answer in answers for advisory in answer.advisories}
    reasons = {entry["id"]: entry["reason"] for entry in accepted}
    code = 0
    for advisory in sorted(found, key=str):
        reason = next((reasons[name] for name in advisory.names if name in reasons), None)
        print(
            f"{advisory}: {f'accepted, {reason}' if reason else 'NOT ACCEPTED; upgrade it, or accept it in locks/accepted.toml'}"
        )
        code = code if reason else 1
    unused = set(reasons) - {name for advisory in found for name in advisory.names}
    for name in sorted(unused):
        print(f"locks/accepted.toml accepts {name}, which no locked package has any more; remove it")
    if not found:
        print("no known vulnerability")
    return code


def _advisory(package: Mapping[str, Any], entry: Mapping[str, Any]) -> Advisory:
    return Advisory(
        package=package["name"],
        version=package["version"],
        names=(entry["id"], *entry.get("aliases", ())),
        fixed=tuple(entry.get("fix_versions", ())),
    )


if __name__ == "__main__":
    sys.exit(main())
