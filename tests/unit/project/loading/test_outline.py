"""The names of a project, read in milliseconds, are those that its files mean."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parquetry.compiler.spec_files.scaffold import CI, scaffold
from parquetry.project.loading.outline import outline


@pytest.mark.parametrize("name", ["on", "off", "yes", "No", "y", "1_000", "12:30:45", "2026-01-01"])
def test_words_that_older_yaml_reads_as_something_else_are_names(tmp_path, name):
    (tmp_path / "parquetry.yml").write_text(f"name: shop\ntargets:\n  {name}: {{}}\n  'true': {{}}\n")
    assert outline(tmp_path).targets == tuple(sorted((name, "true")))


@pytest.mark.parametrize("value", ["true", "12", "1.5", "null", "[a]", "&a [*a]", "{? [a]: b}"])
def test_what_is_no_text_is_no_name(tmp_path, value):
    (tmp_path / "parquetry.yml").write_text(f"name: {value}\ntargets: {{{value}: {{}}}}\n")
    assert (outline(tmp_path).project, outline(tmp_path).targets) == (None, ())


def test_a_target_named_on_has_its_jobs(tmp_path):
    (tmp_path / "parquetry.yml").write_text(
        "name: shop\ntargets: {on: {warehouse: ./w}, prod: {warehouse: ./p}}\n"
    )
    scaffold(tmp_path, ci=CI.GITHUB)
    text = (tmp_path / ".github" / "workflows" / "parquetry-apply-shop.yml").read_text()
    assert 'matrix: {target: ["on", "prod"]}' in text


@pytest.mark.parametrize("text", ["[" * 400_000, "{a: " * 200_000, "- " * 400_000])
def test_a_file_of_any_depth_has_no_names(tmp_path, text):
    (tmp_path / "tables").mkdir()
    (tmp_path / "parquetry.yml").write_text("name: lake\n")
    (tmp_path / "tables" / "deep.yml").write_text(text)
    (tmp_path / "tables" / "orders.yml").write_text("name: orders\n")
    # In a process of its own: the overflow of a C stack ends the process.
    code = (
        "import sys, pathlib; from parquetry.project.loading.outline import outline; "
        "print(*outline(pathlib.Path(sys.argv[1])).tables)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "orders\n", "")
