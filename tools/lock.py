"""Write `locks/`: for every group of packages their versions and the hashes of all their files.

What new projects install is locked too, in the versions of the group `dev`: it lies beside their templates.

``python tools/lock.py`` needs uv (`make lock`). With ``--check [GROUP ...]`` it only says, offline and with
Python alone, whether a lock was made from other requirements than those in pyproject.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "locks"
OF_PROJECTS = "projects"
"""No group: parquetry's own requirements, those of its stores and keys, and what builds packages."""
GROUPS = ("build", "dev", OF_PROJECTS, "tools", "docs", "bench", "spark-3-5", "spark-4-1", "node")
EXTRAS = ("s3", "gcs", "encryption")
WITH_PROJECT = "dev"
"""The group that is locked with the project itself and all its extras."""

_STAMP = "# of requirements with "


def main() -> int:
    """Return 1 when a lock is stale or cannot be written."""
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options.add_argument("--upgrade", action="store_true")
    options.add_argument("groups", nargs="*", default=GROUPS)
    chosen = options.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if chosen.check:
        return say_stale(stale(project, chosen.groups))
    for group in chosen.groups:
        write(project, group, upgrade=chosen.upgrade)
    return 0


def lock_file(group: str) -> Path:
    """Where the packages of a group are locked."""
    if group == OF_PROJECTS:
        return ROOT / "templates" / "scaffold" / "locked.txt"
    return LOCKS / f"{group}.txt"


def stale(
    project: Mapping[str, Any], groups: Iterable[str], *, place: Callable[[str], Path] = lock_file
) -> list[str]:
    """Groups whose lock is not there, or was made from other requirements."""
    return [group for group in groups if _stamp(project, group) not in _first_lines(place(group))]


def say_stale(groups: list[str]) -> int:
    """Say which locks are stale; 1 when some are."""
    for group in groups:
        place = lock_file(group).relative_to(ROOT)
        print(f"{place} does not fit pyproject.toml; run `make lock`", file=sys.stderr)
    return int(bool(groups))


def write(project: Mapping[str, Any], group: str, *, upgrade: bool) -> None:
    """Lock one group. Versions in the lock that is there stay where they fit, unless ``upgrade``."""
    command = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
    ]
    command += ["--python-version", project["project"]["requires-python"].removeprefix(">=")]
    # No address of an index: whoever installs has one.
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    if group == OF_PROJECTS:
        command += ["pyproject.toml", "--group", "build", "--constraint", "locks/dev.txt"]
        command += [f"--extra={extra}" for extra in EXTRAS]
    else:
        command += ["--group", group]
        command += ["pyproject.toml", "--all-extras"] if group == WITH_PROJECT else []
    command += ["--upgrade"] if upgrade else []
    place = lock_file(group)
    subprocess.run([*command, "--output-file", str(place.relative_to(ROOT))], cwd=ROOT, check=True)
    head = f"# Written by `make lock` from pyproject.toml, group {group}.\n{_stamp(project, group)}\n"
    place.write_text(head + place.read_text(encoding="utf-8"), encoding="utf-8")


def _stamp(project: Mapping[str, Any], group: str) -> str:
    """The line of a lock that tells what it was made from."""
    groups = project["dependency-groups"]
    own = "build" if group == OF_PROJECTS else group
    said: list[Any] = [project["project"]["requires-python"], groups[own]]
    if group in (WITH_PROJECT, OF_PROJECTS):
        said += [project["project"]["dependencies"], project["project"]["optional-dependencies"]]
    return _STAMP + hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _first_lines(place: Path) -> list[str]:
    return place.read_text(encoding="utf-8").splitlines()[:2] if place.exists() else []


if __name__ == "__main__":
    sys.exit(main())
