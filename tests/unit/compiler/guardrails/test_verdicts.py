"""Guardrails over plans of a small project: what they deny, warn of and allow, and that order does not matter."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.errors import BlockedPlanError, SpecError
from parquetry.compiler.guardrails.examples import evaluate_examples
from parquetry.compiler.guardrails.verdicts import findings
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.guarding import check_guardrails
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.project import load
from parquetry.project.diagnostics.model import errors
from parquetry.project.guardrails.expression import compiled
from parquetry.project.guardrails.model import Guardrail, Override, RuleMessage, RuleOutcome
from parquetry.project.yaml.folder import FilesInMemory, FilesOnDisk
from tests.support.project_folder import PROJECT, ProjectFolder
from tests.support.repository import ROOT

MONDAY, FRIDAY = 1_795_996_800_000, 1_795_737_600_000
RULE = {
    "apiVersion": "parquetry/v1",
    "kind": "guardrail",
    "name": "large_files",
    "expression": "spec.sizing.max_file_size_bytes >= 67108864",
    "message": "{table.name} has files of {spec.sizing.max_file_size_bytes}",
}
ALLOWED = {"code": "SC801", "guardrail": "large_files", "table": "orders", "reason": "a small table"}


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "shop")
    (made.root / "guardrails").mkdir()
    made.write("guardrails/large_files.yml", RULE)
    return made


def plan(folder, now_ms=MONDAY):
    return plan_workspace(folder.workspace(), now_ms=now_ms)


def declare(folder, **changes):
    folder.write("guardrails/large_files.yml", RULE | changes)


def found_in(folder):
    with pytest.raises(SpecError) as error:
        folder.workspace()
    return [(one.code, one.file) for one in errors(error.value.diagnostics)]


def test_what_a_guardrail_denies_is_blocked(folder):
    made = plan(folder)
    (blocked,) = made.intent.blocked
    assert made.intent.actions == ()
    assert (blocked.table, blocked.code) == ("orders", "SC801")
    assert (
        "large_files (guardrails/large_files.yml:4:13) denies this: orders has files of 1MiB"
        in blocked.reason
    )
    assert "allow: [{code: SC801, guardrail: large_files, table: orders, reason:" in blocked.remedy
    with pytest.raises(BlockedPlanError):
        apply_plan(made, folder.workspace())
    assert "denies this" in PlanView().text(made, Paint(enabled=False))


def test_an_entry_of_allow_overrides_it_and_is_shown(folder):
    folder.project(allow=[ALLOWED])
    made = plan(folder)
    (action,) = made.intent.actions
    assert [(v.guardrail, v.severity, v.allowed) for v in action.guardrails] == [
        ("large_files", "deny", "a small table")
    ]
    (warning,) = made.evidence.warnings
    assert (warning.code, warning.message.endswith("allowed: a small table")) == ("SC801", True)
    assert decode(encode(made), name="plan.json") == made
    assert apply_plan(made, folder.workspace()).failure is None


def test_an_entry_that_overrides_nothing_is_unused(folder):
    folder.project(allow=[ALLOWED])
    declare(folder, expression="true")
    (warning,) = plan(folder).evidence.warnings
    assert (warning.code, "remove the entry" in warning.message) == ("SC601", True)


def test_nobody_overrides_what_is_never_to_be(folder):
    declare(folder, override="never")
    folder.project(allow=[ALLOWED])
    made = plan(folder)
    assert "no entry of allow overrides it" in made.intent.blocked[0].remedy
    assert made.evidence.warnings[0].code == "SC601"


def test_a_warning_blocks_nothing_and_the_id_covers_it(folder):
    declare(folder, severity="warn")
    warned = plan(folder)
    declare(folder, expression="true")
    fulfilled = plan(folder)
    assert [w.code for w in warned.evidence.warnings] == ["SC802"]
    assert warned.intent.blocked == ()
    assert warned.plan_id != fulfilled.plan_id
    assert fulfilled.intent.actions[0].guardrails is None


@pytest.mark.parametrize(
    "expression", ["spec.sizing.max_file_size == 1", "spec.sizing.max_file_size_bytes", "1/0 == 1"]
)
def test_a_rule_without_an_answer_denies_whatever_its_severity(folder, expression):
    declare(folder, expression=expression, severity="warn")
    assert (
        "guardrails/large_files.yml:4:13) denies this: the expression"
        in plan(folder).intent.blocked[0].reason
    )


def test_a_saved_plan_is_looked_at_again_when_it_is_applied(folder):
    declare(folder, expression="now.getDayOfWeek() != 5")
    saved = plan(folder)
    check_guardrails(saved, folder.workspace(), now_ms=MONDAY)
    with pytest.raises(BlockedPlanError, match="large_files"):
        check_guardrails(saved, folder.workspace(), now_ms=FRIDAY)
    assert plan(folder, FRIDAY).intent.blocked


def test_values_of_personal_columns_are_masked(folder):
    columns = [{"name": "order_id", "type": "bigint", "nullable": False}, {"name": "city", "type": "string"}]
    columns += [{"name": "amount", "type": "double"}, {"name": "revision", "type": "bigint"}]
    columns += [{"name": "who", "type": "string", "pii": True}]
    queries = [{"name": "one", "where": "who = 'Ada Lovelace'"}]
    folder.orders(columns=columns, queries=queries)
    declare(folder, message="{table.queries.map(q, q.where)}", expression="size(table.queries) == 0")
    assert "Ada" not in encode(plan(folder))


def test_entries_name_guardrails_that_exist(folder):
    folder.project(allow=[ALLOWED | {"guardrail": "large_file"}])
    assert found_in(folder) == [("PQ312", "parquetry.yml")]
    folder.project(allow=[{key: text for key, text in ALLOWED.items() if key != "guardrail"}])
    assert found_in(folder) == [("PQ101", "parquetry.yml")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"expression": "tabel.name == ''"}, "PQ107"),
        ({"message": "{table.name +}"}, "PQ107"),
        ({"severity": "error"}, "PQ104"),
        ({"message": "{{ var('x') }}"}, "PQ208"),
        ({"examples": [{"plan": "../plan.json", "expected": "deny"}]}, "PQ103"),
        ({"examples": [{"plan": "a.json", "expected": "deny", "now": "2026-13-01T00:00:00Z"}]}, "PQ103"),
    ],
)
def test_mistakes_are_findings_at_their_place(folder, changes, code):
    declare(folder, **changes)
    assert found_in(folder) == [(code, "guardrails/large_files.yml")]


def test_a_rule_under_another_name_than_its_file_holds(folder):
    declare(folder, name="another")
    assert "guardrail another" in plan(folder).intent.blocked[0].reason
    folder.write("guardrails/another.yml", RULE | {"name": "another"})
    assert found_in(folder) == [("PQ301", "guardrails/large_files.yml")]


def test_guardrails_lie_directly_in_their_folder(folder):
    (folder.root / "guardrails" / "more").mkdir()
    folder.write("guardrails/more/large_files.yml", RULE)
    assert found_in(folder) == [("PQ012", "guardrails/more/large_files.yml")]


def test_the_guardrails_that_ship_deny_and_pass():
    project = load(ROOT / "examples" / "guardrails").project
    outcomes = evaluate_examples(project.guardrails, FilesOnDisk(project.root))
    assert outcomes.failure is None
    assert {(o.guardrail, o.outcome) for o in outcomes.outcomes} == {
        (rule.name, outcome)
        for rule in project.guardrails
        for outcome in (RuleOutcome.DENY, RuleOutcome.FULFILLED)
    }
    assert len(project.guardrails) == 7


def test_what_is_no_plan_differs_from_any_outcome(folder):
    declare(folder, examples=[{"plan": f"{name}.json", "expected": "pass"} for name in ("a", "b", "c")])
    (rule,) = folder.workspace().guardrails
    files = {"guardrails/a.json": b"[1]", "guardrails/b.json": b"{", "guardrails/c.json": b'{"intent": {}}'}
    outcomes = evaluate_examples([rule], FilesInMemory(files)).outcomes
    assert [outcome.outcome for outcome in outcomes] == [None, None, RuleOutcome.FULFILLED]
    assert evaluate_examples([rule], FilesInMemory({})).failure is not None


def test_a_plan_that_is_printed_is_an_example(folder):
    folder.project(**PROJECT)
    declare(folder, severity="warn", examples=[{"plan": "plan.json", "expected": "warn"}])
    (folder.root / "guardrails" / "plan.json").write_text(encode(plan(folder)))
    project = load(folder.root).project
    assert evaluate_examples(project.guardrails, FilesOnDisk(project.root)).failure is None


def rule(name, text, severity):
    return Guardrail(
        name=name,
        expression=compiled(text),
        severity=severity,
        message=RuleMessage.of("{table.name}: {size(table.tags)}"),
        override=Override.ALLOW,
        origin="guardrails/a.yml:1:1",
    )


TEXTS = ("size(table.tags) > 1", "'gold' in table.tags", "spec.size > 3", "figures.files == 0", "table.tags")
RULES = tuple(
    rule(f"r{n}", text, severity)
    for n, text in enumerate(TEXTS)
    for severity in (RuleOutcome.WARN, RuleOutcome.DENY)
)
ACTIONS = st.lists(
    st.builds(
        lambda name, tags, size: {"table": name, "spec": {"size": size, "extra": {"tags": tags}}},
        st.text("abc", min_size=1, max_size=3),
        st.lists(st.sampled_from(["gold", "silver"]), max_size=3),
        st.integers(0, 9) | st.none(),
    ),
    max_size=4,
    unique_by=lambda action: action["table"],
)


@settings(deadline=None, max_examples=50)
@given(ACTIONS, st.permutations(RULES), st.randoms(use_true_random=False))
def test_verdicts_do_not_depend_on_the_order_of_actions_or_rules(actions, rules, random):
    mixed = random.sample(actions, len(actions))
    first = findings(RULES, {"intent": {"actions": actions}}, now_ms=0)
    second = findings(rules, {"intent": {"actions": mixed}}, now_ms=0)
    assert set(map(repr, first)) == set(map(repr, second))
    alone = [f for a in actions for r in RULES for f in findings([r], {"intent": {"actions": [a]}}, now_ms=0)]
    assert sorted(map(repr, alone)) == sorted(map(repr, first))
    assert json.dumps([f.message for f in first])
    assert all(replace(f) == f for f in first)
