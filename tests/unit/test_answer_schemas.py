"""Recorded answers of commands fit the schemas that `parquetry schema` publishes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from parquetry.cli.main import command_line
from parquetry.cli.output_schema import ANSWERS, answer_schema

GOLDEN = Path(__file__).parents[1] / "golden"


def recorded(answer):
    """Every JSON answer of a command in the golden transcripts."""
    command = answer.replace("-", " ")
    found = []
    for file in sorted(GOLDEN.glob("*/output")):
        for screen in re.split(r"^\$ ", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            head, _, body = screen.partition("\n")
            if head.startswith(f"parquetry {command} ") and "--format json" in head:
                found.append(json.loads(re.sub(r"^\[exit \d+\]$", "", body, flags=re.MULTILINE)))
    return found


@pytest.mark.parametrize("answer", ANSWERS)
def test_recorded_answers_fit_their_schema(answer):
    Draft202012Validator.check_schema(answer_schema(answer))
    # The transcripts hold a word in the place of an instant.
    instant = {"type": "string", "pattern": r"^(\d{14}(\d{3})?|<-+instant-+>)$"}
    text = json.dumps(answer_schema(answer)).replace(
        json.dumps("^[0-9]{14}([0-9]{3})?$"), json.dumps(instant["pattern"])
    )
    documents = recorded(answer)
    assert documents, f"no golden transcript has an answer of {answer}"
    for document in documents:
        Draft202012Validator(json.loads(text)).validate(document)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_key_that_is_missing_is_noticed(answer):
    validator = Draft202012Validator(answer_schema(answer))
    for document in recorded(answer):
        for key in document:
            smaller = {name: value for name, value in document.items() if name != key}
            optional = key not in json.dumps(answer_schema(answer).get("required", [key]))
            assert optional or not validator.is_valid(smaller), key


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_schema_is_printed_as_it_is(answer):
    done = CliRunner().invoke(command_line, ["schema", answer])
    assert json.loads(done.stdout) == answer_schema(answer)


def test_every_key_is_described():
    def walk(node, path):
        for name, child in node.get("properties", {}).items():
            assert child.get("description", "").endswith("."), f"{path}.{name}"
            walk(child, f"{path}.{name}")
        for part in {"items", "then", "else"} & set(node):
            walk(node[part], path)

    for answer in ANSWERS:
        walk(answer_schema(answer), answer)
