"""Write `locks/`: the versions of each group's packages and the hashes of all their files.

The packages of new projects are locked too, in the versions of the group `dev`, beside their templates.

``python tools/lock.py`` needs uv (`make lock`). With ``--check [GROUP ...]`` it only reports, offline and
with Python alone, whether a lock was made from other requirements than those in pyproject.toml.
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
"""Not a group: the requirements of parquetry, of its stores and keys, and of building packages."""
GROUPS = (
    *("build", "dev", OF_PROJECTS, "tools", "docs", "bench"),
    *("spark-3-5", "spark-4-1", "node", "readers", "dbt"),
)
EXTRAS = ("s3", "gcs", "encryption")
WITH_PROJECT = "dev"
"""The group that is locked together with the project and all its extras."""

_STAMP = "# of requirements with "


def main() -> int:
    """Return 1 if a lock is stale or cannot be written."""
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options.add_argument("--upgrade", action="store_true")
    options.add_argument("groups", nargs="*", default=GROUPS)
    chosen = options.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if chosen.check:
        return report_stale(stale(project, chosen.groups))
    for group in chosen.groups:
        write(project, group, upgrade=chosen.upgrade)
    return 0


def lock_file(group: str) -> Path:
    """Return the lock file of a group."""
    if group == OF_PROJECTS:
        return ROOT / "templates" / "scaffold" / "locked.txt"
    return LOCKS / f"{group}.txt"


def stale(
    project: Mapping[str, Any], groups: Iterable[str], *, place: Callable[[str], Path] = lock_file
) -> list[str]:
    """Return the groups whose lock is missing or was made from other requirements."""
    return [group for group in groups if _stamp(project, group) not in _first_lines(place(group))]


def report_stale(groups: list[str]) -> int:
    """Print the stale locks, and return 1 if there are any."""
    for group in groups:
        place = lock_file(group).relative_to(ROOT)
        print(f"{place} is stale; run `make lock`", file=sys.stderr)
    return int(bool(groups))


def write(project: Mapping[str, Any], group: str, *, upgrade: bool) -> None:
    """Lock one group. Versions in the existing lock stay if they still fit, unless ``upgrade``."""
    command = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
    ]
    command += ["--python-version", project["project"]["requires-python"].removeprefix(">=")]
    # Without an index URL, as each user has an own one.
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    if group == OF_PROJECTS:
        command += ["pyproject.toml", "--group", "build", "--constraint", "locks/dev.txt"]
        command += [f"--extra={extra}" for extra in EXTRAS]
    else:
        command += ["--group", group]
        command += ["pyproject.toml", "--all-extras"] if group == WITH_PROJECT else []
    # pip takes a package with extras by hash only if the lock names the extras.
    command += ["--no-strip-extras"] if group == "dbt" else []
    command += ["--upgrade"] if upgrade else []
    place = lock_file(group)
    subprocess.run([*command, "--output-file", str(place.relative_to(ROOT))], cwd=ROOT, check=True)
    head = f"# Written by `make lock` from pyproject.toml, group {group}.\n{_stamp(project, group)}\n"
    place.write_text(head + place.read_text(encoding="utf-8"), encoding="utf-8")


def _stamp(project: Mapping[str, Any], group: str) -> str:
    """Return the line of a lock with the digest of its requirements."""
    groups = project["dependency-groups"]
    own = "build" if group == OF_PROJECTS else group
    requirements: list[Any] = [project["project"]["requires-python"], groups[own]]
    if group in (WITH_PROJECT, OF_PROJECTS):
        requirements += [project["project"]["dependencies"], project["project"]["optional-dependencies"]]
    return _STAMP + hashlib.sha256(json.dumps(requirements, sort_keys=True).encode()).hexdigest()


def _first_lines(place: Path) -> list[str]:
    return place.read_text(encoding="utf-8").splitlines()[:2] if place.exists() else []


if __name__ == "__main__":
    sys.exit(main())
