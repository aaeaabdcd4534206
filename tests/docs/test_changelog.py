"""The changelog has the form of keepachangelog.com 1.1.0."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from parquetry.version import VERSION

TEXT = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
RELEASE = re.compile(r"\[(?P<version>\d+\.\d+\.\d+)\] - (?P<day>\d{4}-\d{2}-\d{2})")


def sections():
    """The headings of versions with the headings of kinds below each."""
    found = []
    for marks, heading in re.findall(r"^(#+) (.+)$", TEXT, flags=re.MULTILINE):
        if marks == "##":
            found.append((heading, []))
        elif marks == "###":
            found[-1][1].append(heading)
        else:
            assert (marks, heading) == ("#", "Changelog")
    return found


def numbers(version):
    return tuple(map(int, version.split(".")))


def test_what_is_unreleased_stands_first():
    assert sections()[0][0] == "[Unreleased]"


def test_releases_have_a_version_and_a_day_newest_first():
    releases = [RELEASE.fullmatch(heading) for heading, _ in sections()[1:]]
    assert all(releases)
    versions = [numbers(release["version"]) for release in releases]
    days = [date.fromisoformat(release["day"]) for release in releases]
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)
    assert max(versions, default=(0, 0, 0)) <= numbers(VERSION)


def test_changes_are_of_the_six_kinds():
    for heading, kinds in sections():
        assert kinds == [kind for kind in KINDS if kind in kinds], heading


def test_the_first_version_has_nothing_to_change_or_fix():
    _, kinds = sections()[-1]
    assert set(kinds) <= {"Added", "Security"}


def test_lines_are_short_enough_to_be_read():
    assert max(map(len, TEXT.splitlines())) <= 120
