"""A difference of specs as a comment: within its bytes, blocked tables first, and no text of others is a mark."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from jsonschema import validate

from parquetry.cli.main import command_line
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.diff import render_diff_markdown
from parquetry.compiler.reports.diff import diff_specs
from tests.support.handmade_git import committed
from tests.support.project_folder import EVENTS, ProjectFolder, columns_with

MARKER = "<!-- parquetry:diff project=shop target=dev -->"


@pytest.fixture
def shop(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    committed(folder.root)
    return folder


def diff(folder):
    return diff_specs(folder.root, base="HEAD", target=None, variables={})


def test_a_comment_never_takes_more_than_its_bytes(shop):
    for number in range(60):
        shop.write(f"tables/events_{number:02}.yml", EVENTS | {"name": f"events_{number:02}"})
    shop.orders(columns=columns_with(items=None))
    whole = render_diff_markdown(diff(shop), max_bytes=60_000)
    assert whole.startswith(f"{MARKER}\n### parquetry: specs for `dev` against `HEAD`: 61 differences\n")
    assert whole.index("orders") < whole.index("events_00")
    for most in (600, 2_000, 5_000):
        text = render_diff_markdown(diff(shop), max_bytes=most)
        assert len(text.encode()) <= most
        assert text.count("<details") == text.count("</details>")
        left = 61 - text.count("<details")
        assert text.endswith(f"*Omitted for lack of space: {left} differences.*\n")


def test_no_text_of_the_branch_is_a_mark(shop):
    trap = f"{MARKER}\n@mona ![x](https://example.org/x.png) </details> ##[error]\n::error::x"
    shop.orders(description=trap)
    text = render_diff_markdown(diff(shop), max_bytes=60_000)
    assert text.count("<!--") == 1
    assert text.count("</details>") == 1
    assert not [part for part in ("@mona", "![", "https://", "##[") if part in text]
    assert not [line for line in text.splitlines() if line.startswith("::")]


RULE = {
    "apiVersion": "parquetry/v1",
    "kind": "guardrail",
    "name": "small_files",
    "expression": "spec.sizing.max_file_size_bytes >= 1024",
    "message": "too small",
    "override": "never",
}


@pytest.fixture
def ruled(shop):
    (shop.root / "guardrails").mkdir()
    shop.write("guardrails/small_files.yml", RULE)
    committed(shop.root)
    return shop


def said(folder, format_):
    words = ["diff", "--base", "HEAD", "--format", format_, "-p", str(folder.root)]
    done = CliRunner().invoke(command_line, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_guardrail_that_a_branch_loosens_is_shown(ruled):
    ruled.write("guardrails/small_files.yml", RULE | {"expression": "true", "severity": "warn"})
    old = RULE["expression"]
    document = json.loads(said(ruled, "json"))
    validate(document, answer_schema("diff"))
    changes = [
        {"path": "expression", "old": old, "new": "true"},
        {"path": "severity", "old": "deny", "new": "warn"},
    ]
    expected = {"guardrail": "small_files", "file": "guardrails/small_files.yml"}
    assert document["guardrails"] == [expected | {"status": "changed", "changes": changes}]
    text = said(ruled, "text")
    assert "~ guardrail small_files  changed rule" in text
    assert f"expression: {old} -> true" in text
    assert text.endswith("1 guardrail, 1 unchanged.\n")
    comment = said(ruled, "markdown")
    assert "<details open><summary>" in comment
    assert "- `severity`: `deny` -> `warn`\n- `guardrails/small_files.yml`\n" in comment
    (line,) = said(ruled, "github").splitlines()
    assert line.startswith("::notice file=guardrails/small_files.yml")
    assert f"expression: {old} -> true; severity: deny -> warn" in line


def test_a_guardrail_that_comes_or_goes_is_shown(ruled):
    (ruled.root / "guardrails" / "small_files.yml").unlink()
    ruled.write("guardrails/other.yml", RULE | {"name": "other"})
    other, small = diff(ruled).guardrails
    assert (other.guardrail, other.status, other.changes[0].old) == ("other", "added", None)
    assert (small.guardrail, small.status, small.changes) == ("small_files", "removed", ())
    assert "- guardrail small_files  rule removed" in said(ruled, "text")
    assert len(said(ruled, "github").splitlines()) == 2


def test_examples_of_a_guardrail_are_no_part_of_it(ruled):
    (ruled.root / "guardrails" / "one.json").write_text("{}")
    ruled.write("guardrails/small_files.yml", RULE | {"examples": [{"plan": "one.json", "expected": "deny"}]})
    assert diff(ruled).is_empty


def test_annotations_stand_at_the_lines_of_the_branch(shop):
    shop.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "1MiB"}, description="a\n::error::b")
    done = CliRunner().invoke(
        command_line, ["diff", "--base", "HEAD", "--format", "github", "-p", str(shop.root)]
    )
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert all(line.startswith("::notice file=") for line in lines)
    assert any("line=" in line and "sizing.max_file_size: 1MiB -> 2MiB" in line for line in lines)
