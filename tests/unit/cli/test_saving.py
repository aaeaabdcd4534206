"""Files that `--out` and `--html` name: whose they are, where other users may write."""

from __future__ import annotations

import os

import click
import pytest

from parquetry.cli.requests.saving import save


@pytest.fixture
def of_another(monkeypatch):
    """Return a function that makes a file or link another user's."""
    if os.geteuid() == 0:
        return lambda path: os.chown(path, 65534, -1, follow_symlinks=False)
    stranger = os.geteuid() + 1
    return lambda _: monkeypatch.setattr(os, "geteuid", lambda: stranger)


def saved(tmp_path, name="plan.json"):
    save(tmp_path / "shared" / name, '{"new": 1}', option="--out", project=tmp_path / "project")


@pytest.mark.parametrize("content", ['{"precious": 1}', "", None])
def test_no_link_of_another_user_is_followed(tmp_path, of_another, content):
    victim = tmp_path / "victim.json"
    if content is not None:
        victim.write_text(content)
    (tmp_path / "shared").mkdir()
    link = tmp_path / "shared" / "plan.json"
    link.symlink_to(victim)
    of_another(link)
    with pytest.raises(click.UsageError, match="belongs to another user; name another file with --out"):
        saved(tmp_path)
    assert (victim.read_text() if victim.exists() else None) == content


@pytest.mark.parametrize("make", [lambda path: path.write_text("{}"), os.mkfifo])
def test_nothing_is_written_into_a_file_of_another_user(tmp_path, of_another, make):
    (tmp_path / "shared").mkdir()
    file = tmp_path / "shared" / "plan.json"
    make(file)
    of_another(file)
    with pytest.raises(click.UsageError, match="belongs to another user"):
        saved(tmp_path)


def test_own_files_are_replaced_and_own_links_followed(tmp_path):
    saved(tmp_path, "first.json")
    (tmp_path / "shared" / "first.json").write_text('{"old": "' + 1000 * "x" + '"}')
    (tmp_path / "shared" / "link.json").symlink_to("first.json")
    (tmp_path / "shared" / "new.json").symlink_to("made.json")
    for name in ("first.json", "link.json", "new.json"):
        saved(tmp_path, name)
    for name in ("first.json", "made.json"):
        assert (tmp_path / "shared" / name).read_text() == '{"new": 1}'


METRICS = "# HELP parquetry_table_readable 1 if the table could be read, else 0.\n"


@pytest.mark.parametrize("content", ["#!/bin/sh\nexit 1\n", "# ours\na: 1\n", "# HELP other_metric x\n", "#"])
def test_metrics_replace_no_file_that_only_begins_with_the_same_character(tmp_path, content):
    file = tmp_path / "deploy.sh"
    file.write_text(content)
    for text in (METRICS, "# EOF\n"):
        with pytest.raises(click.UsageError, match=r"exists and was not saved with metrics\.file"):
            save(file, text, option="metrics.file", project=tmp_path / "project", at_once=True)
    assert file.read_text() == content


def test_metrics_replace_metrics(tmp_path):
    file = tmp_path / "lake.prom"
    for text in (METRICS, "# EOF\n", METRICS):
        save(file, text, option="metrics.file", project=tmp_path / "project", at_once=True)
        assert file.read_text() == text
