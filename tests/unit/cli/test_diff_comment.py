"""A difference of specs as a comment: within its bytes, blocked tables first, and no text of others is a mark."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.views.plan.specs import render_diff_markdown
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


def test_annotations_stand_at_the_lines_of_the_branch(shop):
    shop.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "1MiB"}, description="a\n::error::b")
    done = CliRunner().invoke(
        command_line, ["diff", "--base", "HEAD", "--format", "github", "-p", str(shop.root)]
    )
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert all(line.startswith("::notice file=") for line in lines)
    assert any("line=" in line and "sizing.max_file_size: 1MiB -> 2MiB" in line for line in lines)
