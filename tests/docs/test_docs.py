"""The documentation says what is so: its YAML is valid, its links lead somewhere, its references are complete."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import parquetry
from parquetry import project
from parquetry.cli.main import command_line
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.plan.changes import CODES as CHANGE_CODES
from parquetry.message import Command
from parquetry.project.diagnostics.codes import CODES
from tests.support.repository import ROOT
from tools.command_reference import FOLDER, commands, page_of, pages

LISTED = subprocess.run(
    ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
    capture_output=True,
    text=True,
    check=False,
).stdout.split("\n")
MANUALS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/*/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("tests/*.md")),
    *sorted(ROOT.glob("tests/support/*.md")),
]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/parquetry.yml"))
FOLDERS = {"table": "tables", "policy": "policies", "guardrail": "guardrails"}
BARE_PROJECT = {
    "apiVersion": "parquetry/v1",
    "kind": "project",
    "name": "documented",
    "targets": {"dev": {"warehouse": "./warehouse"}},
}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(.*)$", re.MULTILINE)


def fenced(text):
    """The fenced blocks of a page, as (info string, content)."""
    marks = list(FENCE.finditer(text))
    pairs = zip(marks[::2], marks[1::2], strict=True)
    return [(start[1].strip(), text[start.end() + 1 : end.start()]) for start, end in pairs]


def prose(text):
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def documents(manual):
    """The complete YAML documents of a page; fragments are marked as such."""
    blocks = [body for info, body in fenced(manual.read_text(encoding="utf-8")) if info == "yaml"]
    return [yaml.safe_load(body) | {"__text": body} for body in blocks]


def name_of(path):
    return str(path.relative_to(ROOT))


def test_the_documentation_is_there():
    names = {name_of(path) for path in MANUALS}
    assert {
        "README.md",
        "docs/architecture.md",
        "docs/tutorial.md",
        "docs/how-to/author.md",
        "docs/how-to/hudi.md",
        "docs/how-to/operate.md",
        "docs/reference/spec.md",
        "docs/reference/commands/README.md",
        "docs/reference/diagnostics.md",
    } <= names


@pytest.mark.parametrize(
    ("index", "pages"),
    [
        ("README.md", "docs/how-to/*.md"),
        ("README.md", "docs/explanation/*.md"),
        ("benchmarks/RESULTS.md", "benchmarks/[!R]*.md"),
    ],
)
def test_every_page_is_linked(index, pages):
    linked = {
        (ROOT / index).parent / target for target in LINK.findall(prose((ROOT / index).read_text("utf-8")))
    }
    assert [name_of(page) for page in sorted(ROOT.glob(pages)) if page not in linked] == []


@pytest.mark.parametrize("manual", [m for m in MANUALS if documents(m)], ids=name_of)
def test_every_yaml_block_is_valid(manual, tmp_path):
    found = documents(manual)
    assert {document["kind"] for document in found} <= {"project", "table", "policy", "guardrail"}
    declared = next((d["__text"] for d in found if d["kind"] == "project"), yaml.safe_dump(BARE_PROJECT))
    (tmp_path / "parquetry.yml").write_text(declared, encoding="utf-8")
    for example in EXAMPLES:
        # A block may lean on a policy that the example beside it shows.
        for policy in example.glob("policies/*.yml"):
            (tmp_path / "policies").mkdir(exist_ok=True)
            (tmp_path / "policies" / policy.name).write_text(policy.read_text(encoding="utf-8"))
    for document in found:
        if folder := FOLDERS.get(document["kind"]):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{document['name']}.yml").write_text(document["__text"], encoding="utf-8")
    result = project.load(tmp_path, environment=None)
    assert [str(d) for d in result.diagnostics] == []
    assert result.project is not None


def test_the_tests_that_the_threats_name_are_there():
    text = (ROOT / "docs" / "explanation" / "threats.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) == text.count("`tests/")
    missing = [
        (file, name)
        for file, name in named
        if not (ROOT / file).is_file()
        or (name and f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_blocks_without_kind_are_marked_as_fragments():
    for manual in MANUALS:
        for info, body in fenced(manual.read_text(encoding="utf-8")):
            assert info.split()[:1] != ["yml"], f"{name_of(manual)}: write yaml"
            if info == "yaml":
                assert "apiVersion" in body, f"{name_of(manual)}: complete it, or mark it as a fragment"


def test_the_screens_of_explain_are_those_of_the_tutorial_s_project(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    blocks = [
        body for manual in MANUALS for info, body in fenced(manual.read_text("utf-8")) if info == "console"
    ]
    screens = [body.partition("\n") for body in blocks if body.startswith("$ parquetry explain ")]
    assert screens
    for command, _, screen in screens:
        words = [*command.split()[2:], "-p", str(ROOT / "examples" / "shop")]
        assert CliRunner().invoke(command_line, words).stdout == screen, command


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_every_example_is_valid(example):
    result = project.load(example, environment=None)
    assert result.diagnostics == ()
    found = {path for path in example.rglob("*.yml") if "target" not in path.relative_to(example).parts}
    assert result.files == len(found)


@pytest.mark.parametrize("manual", MANUALS, ids=name_of)
def test_internal_links_lead_somewhere(manual):
    text = manual.read_text(encoding="utf-8")
    broken = []
    for target in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (manual.parent / path).resolve() if path else manual
        known = place.exists() and place.is_relative_to(ROOT)
        if not known or (anchor and anchor not in anchors(place.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


def test_the_shop_of_the_tutorial_is_the_example():
    """The same table, policy and project, so that what the example's test runs holds for the tutorial."""
    shop = ROOT / "examples" / "shop"
    for file, kind in (
        ("parquetry.yml", "project"),
        ("policies/small-data.yml", "policy"),
        ("tables/orders.yml", "table"),
    ):
        text = (shop / file).read_text(encoding="utf-8")
        shown = [d["__text"] for d in documents(ROOT / "docs" / "tutorial.md") if d["kind"] == kind]
        assert [re.sub(r"^# .*\n", "", block) for block in shown] == [text]
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert (shop / "landing" / "2026-01.csv").read_text(encoding="utf-8") in tutorial


def test_every_diagnostic_code_is_documented():
    text = (ROOT / "docs" / "reference" / "diagnostics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### (PQ\d+)$", text, flags=re.MULTILINE)) == set(CODES)


def test_every_code_of_a_change_is_documented():
    text = page_of("plan").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (SC\d+) \|", text, flags=re.MULTILINE)) == set(CHANGE_CODES)


def test_codes_that_are_mentioned_exist():
    for manual in MANUALS:
        mentioned = set(re.findall(r"\b(?:PQ|SC)\d{3}\b", manual.read_text(encoding="utf-8")))
        assert mentioned <= {*CODES, *CHANGE_CODES}, name_of(manual)


def test_the_api_reference_names_what_is_exported():
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: parquetry\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted([*named, "__version__"]) == sorted(parquetry.__all__)


def test_the_command_reference_is_current():
    written = {path: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert written == pages(), "run: python -m tools.command_reference"


def words_of_commands(text):
    """Every `parquetry ...` in the text as its words, from console blocks and from inline code."""
    lines = [m[1] for m in re.finditer(r"^\$ (.*(?:\\\n.*)*)", text, flags=re.MULTILINE)]
    lines += re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        for part in re.split(r"&&|[|;]", line.replace("\\\n", " ").partition("  #")[0]):
            words = part.split()
            if words[:1] == ["parquetry"] and len(words) > 1:
                yield words[1:]


@pytest.mark.parametrize("manual", MANUALS, ids=name_of)
def test_commands_and_options_that_are_mentioned_exist(manual):
    known = {name: {o for p in command.params for o in p.opts} for name, command in commands()}
    groups = {name.split()[0] for name in known if " " in name}
    wrong = []
    for words in words_of_commands(manual.read_text(encoding="utf-8")):
        if words[0].startswith("-"):
            continue
        name = " ".join(words[:2]) if words[0] in groups and len(words) > 1 else words[0]
        options = known.get(name, {"--help", "-h"} if name in groups else None)
        if options is None or any(w.startswith("-") and w not in {*options, "--help", "-h"} for w in words):
            wrong.append(" ".join(words))
    assert wrong == []


MESSAGES = 15
"""Fewer different commands than this in messages would mean that they are not found."""

SOURCES = [
    ROOT / name
    for name in LISTED
    if name.endswith((".py", ".j2", ".json"))
    and name.split("/")[0] in {"compiler", "parquetry", "project", "runtime", "templates"}
]


def commands_in_messages(source):
    """The words of the commands that the messages of a module name, X for those that are not known here."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    makers = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "parquetry.message"
        for alias in node.names
        if alias.name in ("command", "run")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
            yield tuple(word.value if isinstance(word, ast.Constant) else "X" for word in node.args)


def test_commands_that_messages_name_exist():
    """What a message tells the user to type is there, with the options it names and those carried into it."""
    typed_options = TypedOptions(
        directory=Path("p"), target="t", select=("s",), exclude=("e",), variables=(("v", "1"),)
    )
    known = {name: {o for p in command.params for o in p.opts} for name, command in commands()}
    groups = {name.split()[0] for name in known if " " in name}
    found = []
    for source in SOURCES:
        texts = re.sub(r'"\s*\n\s*f?"', "", source.read_text(encoding="utf-8"))
        found += [(source, words) for words in re.findall(r'(?<!""")`parquetry ([a-z][^`\n]*)`', texts)]
        if source.suffix == ".py":
            named = (words for words in commands_in_messages(source) if words[0] != "X")
            found += [
                (source, typed_options.written(Command(words)).strip("`").removeprefix("parquetry "))
                for words in named
            ]
    assert len({words for _, words in found}) > MESSAGES
    wrong = []
    for source, words in found:
        first, *rest = words.split()
        name = f"{first} {rest[0]}" if first in groups and rest else first
        options = known.get(name, set() if name in groups else None)
        if options is None or any(w.startswith("--") and w not in options for w in rest):
            wrong.append(f"{name_of(source)}: parquetry {words}")
    assert wrong == []
