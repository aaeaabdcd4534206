"""The check of commit subjects finds what the house refuses, and passes what it asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.repository import ROOT
from tools.check_commit_subjects import MOST_CHARACTERS, faults


@pytest.mark.parametrize(
    "subject",
    [
        "Address a review",
        "Embed the font",
        "Pass the values",
        f"Add {'x' * (MOST_CHARACTERS - 4)}",
        'Revert "added"',
    ],
)
def test_an_imperative_subject_passes(subject):
    assert [*faults(subject)] == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        (f"Add {'x' * (MOST_CHARACTERS - 3)}", "has 73 characters, at most 72 are allowed"),
        ("add a check", "does not begin with a capital letter"),
        ("Add a check.", "ends with a full stop"),
        ("Added a check", "does not begin with an imperative: Added"),
        ("Adding a check", "does not begin with an imperative: Adding"),
        ("Adds a check", "does not begin with an imperative: Adds"),
    ],
)
def test_another_subject_is_refused(subject, fault):
    assert [*faults(subject)] == [fault]


def test_the_hook_reads_the_first_line_of_the_message(tmp_path):
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"Fixed it\n\n{'x' * 100}\n")
    script = ROOT / "tools" / "check_commit_subjects.py"
    done = subprocess.run([sys.executable, script, message], check=False, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (1, "Fixed it: does not begin with an imperative: Fixed\n")
