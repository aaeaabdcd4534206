"""Check the subjects of commits: at most 72 characters, imperative, with a capital letter and no full stop.

``check_commit_subjects.py FILE`` checks the message in a file, as git's commit-msg hook passes it;
without a file, all commits of HEAD since the check began.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_CHARACTERS = 72
FIRST = "4f49c8dbaf07"
"""The newest commit that was made before there was a check."""

_NO_IMPERATIVE = re.compile(r"\w+(?:ed|ing|[^s]s)")
_IMPERATIVE = frozenset(
    {"Bring", "Embed", "Exceed", "Feed", "Need", "Proceed", "Seed", "Shed", "Speed", "String"}
)
_MADE_BY_GIT = ("Merge ", 'Revert "', "fixup! ", "squash! ")


def faults(subject: str) -> Iterator[str]:
    """Yield what is wrong with a subject."""
    if subject.startswith(_MADE_BY_GIT):
        return
    if len(subject) > MOST_CHARACTERS:
        yield f"has {len(subject)} characters, at most {MOST_CHARACTERS} are allowed"
    if not subject[:1].isupper():
        yield "does not begin with a capital letter"
    if subject.endswith("."):
        yield "ends with a full stop"
    first = subject.partition(" ")[0]
    if _NO_IMPERATIVE.fullmatch(first) and first not in _IMPERATIVE:
        yield f"does not begin with an imperative: {first}"


def subjects() -> list[str]:
    """Return the subjects of the commits since the check began; in a shallow clone, of those that it has."""
    known = subprocess.run(["git", "cat-file", "-e", FIRST], check=False, capture_output=True).returncode == 0
    span = f"{FIRST}..HEAD" if known else "HEAD"
    log = ["git", "log", "--no-merges", "--format=%s", span, *([] if known else ["--max-count=1"])]
    return subprocess.run(log, check=True, text=True, capture_output=True).stdout.splitlines()


def main() -> int:
    """Print the faults and return 1 if there are any."""
    given = [Path(sys.argv[1]).read_text(encoding="utf-8").partition("\n")[0]] if sys.argv[1:] else subjects()
    found = [f"{subject}: {fault}" for subject in given for fault in faults(subject)]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
