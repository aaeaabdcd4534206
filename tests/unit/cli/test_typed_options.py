"""Commands that are printed are about the same project, target and tables as the one that prints them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.wrap import wrap_lines
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.codec import decode, plan_of
from parquetry.compiler.plan.model import Blocked, Evidence, Intent, PlanOptions, RecipeStep
from parquetry.message import Message, command, run
from tests.support.project_folder import ORDERS, ProjectFolder

PROD = {
    "default_target": "dev",
    "targets": {
        name: {"warehouse": f"./{name}", "spark": {"master": "local[2]"}} for name in ("dev", "prod")
    },
    "vars": {"city": "Rome"},
}
TYPED = ["--target", "prod", "--select", "ord*", "--exclude", "other", "--var", "city=New York"]
CARRIED = TypedOptions(
    directory=None,
    target="prod",
    select=("ord*",),
    exclude=("other",),
    variables=(("city", "New York"),),
)


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "my shop")
    folder.project(**PROD)
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    return folder


def said(*arguments, **environment):
    result = CliRunner(env=environment).invoke(command_line, [*arguments], standalone_mode=False)
    assert result.exception is None, result.output
    return result.stdout


def next_command(text):
    """The one command that the output ends with, as the words that a shell makes of it."""
    (line,) = [line for line in text.splitlines() if "Next: " in line]
    return shlex.split(line.partition("Next: ")[2])


def named_commands(text):
    """The commands between backticks, as the words that a shell makes of them."""
    return [shlex.split(words) for words in re.findall(r"`(parquetry [^`]*)`", " ".join(text.split()))]


def test_what_was_typed_is_typed_again():
    assert shlex.split(CARRIED.into("parquetry", "run")) == ["parquetry", "run", *TYPED]
    assert TypedOptions().into("parquetry", "run") == "parquetry run"


def test_commands_between_backticks_carry_what_they_take_and_once():
    text = Message(
        "{command} says who; {command2}, {command3}, `pip install parquetry`",
        command=command("drift"),
        command2=command("unlock", "orders", "-v"),
        command3=command("show"),
    )
    said = CARRIED.with_options(text)
    assert named_commands(said) == [
        ["parquetry", "drift", *TYPED],
        ["parquetry", "unlock", "orders", "-v", *TYPED[:2], *TYPED[-2:]],
        ["parquetry", "show"],
    ]
    assert CARRIED.with_options(said) == said
    assert "run `parquetry apply --target dev --select" in CARRIED.with_options(
        run("apply", "--target", "dev")
    )
    assert TypedOptions().with_options(text) == text


def test_what_looks_like_a_command_in_a_value_is_left_alone(folder):
    name = "`parquetry run`"
    assert CARRIED.with_options(f"there is no table {name}") == f"there is no table {name}"
    assert CARRIED.with_options(
        Message("no table {name}; {command}", name=name, command=command("plan"))
    ).startswith(f"no table {name}; `parquetry plan -")
    shown = outcome("explain", name, "--project", str(folder.root), "--target", "prod")
    assert f"{name}" in shown
    assert "`parquetry run --" not in shown


def outcome(*arguments):
    """What is said on both streams, without the lines' ends."""
    result = CliRunner().invoke(command_line, [*arguments])
    return " ".join(result.output.split())


def test_remedies_and_failures_name_commands_for_what_was_typed(folder):
    place = ["--project", str(folder.root), "--target", "prod"]
    typed = [*place, *TYPED[2:]]
    assert named_commands(outcome("timeline", "orders", *place, "--var", "city=New York")) == [
        ["parquetry", "apply", "--target", "prod", "--project", str(folder.root), "--var", "city=New York"]
    ]
    assert named_commands(outcome("apply", *typed)) == [["parquetry", "plan", "--out", "PLANFILE", *typed]]
    said("apply", *typed, "--auto-approve", "--quiet")
    properties = folder.root / "prod/orders/.hoodie/hoodie.properties"
    kept = properties.read_bytes()
    properties.write_bytes(kept.replace(b"precombine.field=revision", b"precombine.field=items"))
    assert ["parquetry", "apply", *typed] in named_commands(outcome("drift", *typed))
    assert ["parquetry", "drift", *typed] in named_commands(outcome("plan", *typed))
    properties.write_bytes(kept)


def test_a_blocked_plan_names_commands_for_what_was_typed_in_every_shape(folder, tmp_path):
    typed = ["--project", str(folder.root), "--target", "prod"]
    said("apply", *typed, "--auto-approve", "--quiet")
    for identity in folder.root.glob("prod/*/.hoodie/.parquetry/table.json"):
        identity.unlink()
    saved = str(tmp_path / "plan.json")
    adopt = ["parquetry", "adopt", "LOCATION"]
    text = outcome("plan", *typed, "--select", "orders", "--out", saved)
    assert named_commands(text) == [[*adopt, *typed]]
    assert "--target" not in json.loads(Path(saved).read_text("utf-8"))["intent"]["blocked"][0]["remedy"]
    for shape in ("text", "markdown", "html", "github"):
        shown = unescape(outcome("show", saved, "--format", shape))
        assert [*adopt, "--target", "prod"] in named_commands(shown), shape


def test_plan_and_apply_name_the_next_command_for_the_same_target_and_tables(folder):
    typed = ["--project", str(folder.root), *TYPED]
    words = next_command(said("plan", *typed))
    assert words == ["parquetry", "apply", *typed]
    applied = said(*words[1:], "--auto-approve", "--quiet")
    assert next_command(applied) == ["parquetry", "run", *typed]
    assert [path.name for path in folder.root.glob("*/orders/.hoodie")] == [".hoodie"]
    assert (folder.root / "prod/orders/.hoodie").is_dir()
    assert "Next" not in said("plan", *typed)


def test_a_saved_plan_is_applied_whole_to_its_target(folder, tmp_path):
    saved = tmp_path / "plans with a long name" / ("long" * 20) / "plan.json"
    place = ["--project", str(folder.root), "--target", "prod"]
    words = next_command(said("plan", *place, "--select", "orders", "--out", str(saved)))
    assert words == ["parquetry", "apply", str(saved), *place]
    assert next_command(said("show", str(saved))) == ["parquetry", "apply", str(saved), "--target", "prod"]
    assert next_command(said(*words[1:], "--quiet")) == ["parquetry", "run", *place]


def fenced_commands(page):
    """The commands that a comment, or a page, ends with, as the words that a shell makes of them."""
    block = (
        page.rpartition("```sh\n")[2]
        if "```sh" in page
        else page.rpartition("<pre>")[2].partition("</pre>")[0]
    )
    return [shlex.split(line) for line in unescape(block).splitlines() if line.startswith("parquetry ")]


def test_reports_of_a_saved_plan_name_all_that_makes_the_same_plan_again(folder, tmp_path):
    saved = str(tmp_path / "plan.json")
    said("plan", "--project", str(folder.root), *TYPED[:4], "--out", saved, PARQUETRY_VAR="city=Paris")
    plan_id = json.loads(Path(saved).read_text("utf-8"))["plan_id"]
    typed = [*TYPED[:4], "--var", "city=Paris"]
    for shape in ("markdown", "html"):
        again, apply = fenced_commands(said("show", saved, "--format", shape))
        assert again == ["parquetry", "plan", *typed]
        assert apply == ["parquetry", "apply", *typed, "--approved", plan_id]
    place = ["--project", str(folder.root), "--quiet"]
    replanned = json.loads(said(*again[1:], *place, "--format", "json"))
    assert replanned["plan_id"] == plan_id
    assert replanned["evidence"]["options"] == {
        "select": ["ord*"],
        "exclude": [],
        "variables": {"city": "Paris"},
        "base": None,
    }
    assert next_command(said("show", saved)) == ["parquetry", "apply", saved, "--target", "prod", *typed[4:]]
    assert next_command(said(*apply[1:], *place)) == ["parquetry", "run", *place[:2], *typed]


def test_a_plan_made_in_python_with_numbers_for_variables_is_read_again(folder, tmp_path):
    folder.project(**PROD | {"vars": {"keep": 10}})
    plan = parquetry.load(folder.root, variables={"keep": 7}).plan()
    plan.save(tmp_path / "plan.json")
    saved = decode((tmp_path / "plan.json").read_bytes(), name="plan.json")
    assert saved.evidence.options.variables == {"keep": "7"}


def test_variables_may_be_personal_data(folder, tmp_path):
    columns = [column | {"pii": column["name"] == "city"} for column in ORDERS["columns"]]
    folder.orders(columns=columns)
    plan = json.loads(said("plan", "--project", str(folder.root), *TYPED, "--format", "json"))
    assert plan["evidence"]["options"]["variables"] == {"city": "***"}
    folder.orders()
    plan = json.loads(said("plan", "--project", str(folder.root), *TYPED, "--format", "json"))
    assert plan["evidence"]["options"]["variables"] == {"city": "New York"}


def test_commands_that_are_longer_than_a_comment_may_be_are_told_in_short(folder, tmp_path):
    saved = str(tmp_path / "plan.json")
    said("plan", "--project", str(folder.root), "--out", saved)
    plan = decode(Path(saved).read_bytes(), name=saved)
    options = PlanOptions(select=tuple(f"orders_{number}" for number in range(200)))
    long = replace(plan, evidence=replace(plan.evidence, options=options))
    text = render_markdown(long, max_bytes=2_000)
    assert len(text.encode()) <= 2_000
    assert "--select, --exclude, --var as in the plan" in text
    assert "--select orders_199" in render_markdown(long, max_bytes=60_000)


def test_what_environment_variables_say_is_not_typed(folder):
    typed = said("plan", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_TARGET="prod")
    assert next_command(typed) == ["parquetry", "apply"]


def test_a_recipe_is_for_the_same_target_and_starts_in_the_project():
    commands = ("cp a b", "parquetry apply --select orders_v2")
    entry = Blocked(
        table="orders",
        location="w",
        code="SC401",
        reason="the record key changed",
        remedy="make a new table",
        recipe=(RecipeStep(text="Copy.", commands=commands),),
    )
    intent = Intent(project="shop", target="prod", git_commit=None, parquetry="0.1.0", blocked=(entry,))
    plan = plan_of(intent, Evidence(created_ms=0, tables=1))
    typed_options = TypedOptions(directory=Path("my shop"), target="prod", select=("orders",))
    text = wrap_lines(PlanView(typed_options=typed_options).text(plan, Paint(enabled=False)))
    assert [line.strip() for line in text.splitlines() if "$ " in line] == [
        "$ cd 'my shop'",
        "$ cp a b",
        "$ parquetry apply --select orders_v2 --target prod",
    ]
    for page in (render_markdown(plan, max_bytes=60_000), render_html(plan)):
        assert "parquetry apply --select orders_v2 --target prod" in page
