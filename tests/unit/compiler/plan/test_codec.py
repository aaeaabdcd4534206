"""Plans as files: read as they were written, or refused."""

from __future__ import annotations

import json

import pytest

from parquetry.compiler.plan.codec import check_age, decode, encode
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import digest_of
from tests.support.planning import NOW, apply, plan
from tests.support.project_folder import ProjectFolder, columns_with


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_a_saved_plan_round_trips(folder):
    apply(folder)
    folder.orders(columns=columns_with(note={"type": "string"}))
    original = plan(folder)
    assert decode(encode(original), name="plan.json") == original


def tampered(text, change):
    document = json.loads(text)
    change(document)
    document.pop("digest")
    return json.dumps(document | {"digest": digest_of(document)})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("orders", "order5"), "its digest does not match"),
        (lambda text: "{", r"not a saved plan; write one with `parquetry plan --out FILE`$"),
        (lambda text: "[]", "not a saved plan"),
        (lambda text: tampered(text, lambda d: d.update(version=2)), "version 2"),
        (lambda text: tampered(text, lambda d: d.update(more=1)), "unknown fields"),
        (lambda text: tampered(text, lambda d: d["intent"].update(more=1)), "more: unknown key"),
        (
            lambda text: tampered(text, lambda d: d["intent"].update(project="x")),
            "not the digest of its intent",
        ),
    ],
)
def test_a_saved_plan_that_was_touched_is_refused(folder, spoil, message):
    with pytest.raises(StalePlanError, match=message):
        decode(spoil(encode(plan(folder))), name="plan.json")


def test_a_plan_expires_after_seven_days(folder):
    week = 7 * 86_400_000
    made = plan(folder)
    check_age(made, NOW + week, name="plan.json")
    with pytest.raises(StalePlanError, match="7 days old"):
        check_age(made, NOW + week + 1, name="plan.json")
