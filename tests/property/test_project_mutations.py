"""Whatever is in the files, loading ends in findings at places that exist, never in a traceback."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry import project
from parquetry.cli.main import command_line
from parquetry.project.diagnostics.codes import CODES
from parquetry.project.diagnostics.model import render_github, render_json, render_text
from parquetry.project.yaml.document import parse
from tests.support.effort import examples
from tests.support.spec_cases import CASES, POLICY, PROJECT, TABLE, Case, write_project

PLACES = {"project": "parquetry.yml", "table": "tables/flights.yml", "policy": "policies/standard.yml"}
VALID = [case for case in CASES if case.verdict == "positive"]
TEXTS = {case: case.path.read_text(encoding="utf-8") for case in CASES}
SNIPPETS = [
    ": ", "- ", "{", "}", "[", "]", "\t", "\n", "  ", "'", '"', "&a ", "*a", "<<: ", "!!str ", "? ", "| ", "> ", "#", "---\n", "%",
    "{{ ", " }}", "{% ", " %}", "var('n')", "env_var('HOME')", "target.name", "null", "~", "true", "yes", ".nan", "-1", "0", "1e400",
    "120MiB", "\ufeff", "\x00", "\x85", "\u2028", "é", "\U0001f600", "..", "/", "s3://", "(", ")", "`", ";", "--", "/*", "${x}",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(
        [
            *SNIPPETS,
            "id",
            "flights",
            "auto",
            "120MiB",
            "25d",
            "{{ var('n') }}",
            "{{ 1",
            "select 1",
            "array<int>",
        ]
    ),
    st.text(max_size=12),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "file", "x", "where"]) | st.text(max_size=4), inner, max_size=3
        )
    ),
    max_leaves=8,
)


MOST_SECONDS = 2
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.yml"))


def everything_in(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def check(case: Case, content: bytes) -> None:
    """Findings only: no traceback, nothing written, and no hang (processor time, so that load is no failure)."""
    started = time.process_time()
    load(case.kind, content)
    assert time.process_time() - started < MOST_SECONDS


def load(kind: str, content: bytes) -> None:
    files: dict[str, str | bytes] = {
        "parquetry.yml": PROJECT,
        "tables/flights.yml": TABLE + "policy: standard\n",
        "policies/standard.yml": POLICY + "publish: {iceberg: {catalog: here}}\n",
    }
    root = Path(tempfile.mkdtemp())
    try:
        write_project(root, files | {PLACES[kind]: content})
        before = everything_in(root)
        for environment in (None, {"HOME": "/root", "BUCKET": "b"}):
            result = project.load(root, environment=environment)
            lines = content.decode("utf-8", errors="replace").count("\n") + 3
            for found in result.diagnostics:
                assert found.code in CODES
                assert found.line >= 1
                assert found.column >= 1
                if found.file == PLACES[kind]:
                    assert found.line <= lines + content.count(b"\r") + content.count(
                        b"\xc2\x85"
                    ) + content.count(b"\xe2\x80")
            json.dumps(render_json(result.diagnostics, files=result.files), allow_nan=False)
            render_text(result.diagnostics, files=result.files).encode()
            render_github(result.diagnostics).encode()
            if result.project:
                for table in result.project.tables:
                    json.dumps(table.spec.to_json(), allow_nan=False)
        assert everything_in(root) == before
    finally:
        shutil.rmtree(root)


@st.composite
def mutated_texts(draw) -> tuple[Case, bytes]:
    case = draw(st.sampled_from(CASES))
    text = TEXTS[case]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 1, 5, 40]))
        inserted = draw(st.sampled_from(SNIPPETS) | st.text(max_size=5))
        text = text[:start] + inserted + text[start + length :]
    return case, text.encode("utf-8", errors="replace")


@st.composite
def mutated_values(draw) -> tuple[Case, bytes]:
    """A valid file with the value at one of its paths replaced, added or taken away."""
    case = draw(st.sampled_from(VALID))
    root = parse(case.path.name, case.path.read_bytes()).root
    assert root is not None
    value = json.loads(json.dumps(root.value))
    parent: Any = None
    key: Any = None
    node = value
    while isinstance(node, (dict, list)) and node and (parent is None or draw(st.booleans())):
        parent, key = (
            node,
            draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node))))),
        )
        node = node[key]
    match draw(st.sampled_from(["replace", "remove", "add"])):
        case "replace":
            parent[key] = draw(VALUES)
        case "remove":
            del parent[key]
        case _ if isinstance(parent, dict):
            parent[draw(st.text(max_size=5))] = draw(VALUES)
        case _:
            parent.append(draw(VALUES))
    return case, yaml.safe_dump(value, allow_unicode=True).encode("utf-8", errors="replace")


def without_deadline(count: int):
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


@given(mutated_texts())
@without_deadline(examples(200))
def test_mutated_texts_end_in_findings(mutation):
    check(*mutation)


@given(mutated_values())
@without_deadline(examples(150))
def test_mutated_values_end_in_findings(mutation):
    check(*mutation)


def keys_of_valid_files() -> Iterator[tuple[Case, Any, tuple[str | int, ...]]]:
    """Each key of the valid files once, with the content of a file that has it and its path there."""
    seen = set()
    for case in VALID:
        content = yaml.safe_load(TEXTS[case])
        for path in paths_in(content):
            key = case.kind, tuple(part for part in path if isinstance(part, str))
            if isinstance(path[-1], str) and key not in seen:
                seen.add(key)
                yield case, content, path


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths_in(child, (*path, key))


MISSING = object()


@pytest.mark.parametrize("wrong", [MISSING, None, "3x", {"a": 1}], ids=["missing", "null", "text", "mapping"])
def test_a_wrong_value_of_any_key_ends_in_findings(wrong):
    keys = list(keys_of_valid_files())
    assert len(keys) > 200
    for case, content, path in keys:
        changed = copy.deepcopy(content)
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        if wrong is MISSING:
            del parent[path[-1]]
        else:
            parent[path[-1]] = wrong
        load(case.kind, yaml.safe_dump(changed, allow_unicode=True).encode())


@given(st.sampled_from(CASES), st.binary(max_size=60))
@without_deadline(examples(40))
def test_any_bytes_end_in_findings(case, content):
    check(case, content)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_kept_mutations_end_in_findings(path):
    """Mutations that were found to end in findings of different kinds, one for each combination."""
    load(path.stem.partition("-")[0], path.read_bytes())


def test_mutations_are_kept():
    assert len(CORPUS) >= 100


@given(mutated_texts())
@without_deadline(25)
def test_the_command_ends_with_a_verdict(mutation):
    case, content = mutation
    with tempfile.TemporaryDirectory() as folder:
        root = write_project(Path(folder), {"tables/flights.yml": TABLE, PLACES[case.kind]: content})
        for command in (("validate",), ("validate", "--format", "github"), ("fmt", "--check"), ("ls",)):
            done = CliRunner().invoke(command_line, [*command, "--project", str(root)])
            assert done.exit_code in (0, 1, 3), done.output
            assert "Traceback" not in done.output
            assert "a bug of parquetry" not in done.output


@pytest.mark.long
@given(st.one_of(mutated_texts(), mutated_values()))
@without_deadline(20_000)
def test_twenty_thousand_mutations_end_in_findings(mutation):
    check(*mutation)
