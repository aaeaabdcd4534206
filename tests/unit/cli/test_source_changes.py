"""Sources that come, go or get another name, as one change each."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.compiler.plan.changes import spec_changes
from parquetry.runtime.spec.table_spec import Column, Source, TableSpec

FEED = Source(name="feed", format="csv", path="landing/*.csv", options={"header": "true"})
OTHER = Source(name="other", format="json", path="other/*.json")
HUDI = Source(name="hudi", format="hudi", path="../upstream", encryption_keys=("kms:own:key",))


def _shown(before: tuple[Source, ...], after: tuple[Source, ...]) -> dict[str, tuple[object, object]]:
    table = TableSpec(name="t", columns=(Column(name="a", type="int"),))
    changes = spec_changes(
        replace(table, sources=before), replace(table, sources=after), origin=lambda path: f"at {path}"
    )
    return {change.path: (change.old, change.new) for change in grouped_changes(changes)}


def test_a_renamed_source_is_one_change():
    assert _shown((FEED, OTHER), (replace(FEED, name="orders"), OTHER)) == {
        "sources.feed.name": ("feed", "orders")
    }


def test_an_added_and_a_removed_source_are_one_change_each():
    ((path, (old, new)),) = _shown((OTHER,), (OTHER, FEED)).items()
    assert (path, old) == ("sources.feed", None)
    assert new == {"format": "csv", "operation": "upsert", "options.header": "true", "path": "landing/*.csv"}
    assert _shown((OTHER, FEED), (OTHER,)) == {"sources.feed": (new, None)}


def test_a_source_that_is_renamed_and_changed_shows_both():
    shown = _shown((FEED,), (replace(FEED, name="orders", path="incoming/*.csv"),))
    assert [(path, old is None, new is None) for path, (old, new) in shown.items()] == [
        ("sources.feed", False, True),
        ("sources.orders", True, False),
    ]


def test_two_sources_that_look_alike_are_not_said_to_be_the_removed_one():
    shown = _shown((FEED,), (replace(FEED, name="one"), replace(FEED, name="two")))
    assert list(shown) == ["sources.feed", "sources.one", "sources.two"]


def test_a_field_that_comes_or_goes_stays_a_change_of_a_field():
    longer = replace(FEED, options={"header": "true", "sep": ";"})
    assert _shown((FEED,), (longer,)) == {"sources.feed.options.sep": (None, ";")}
    assert _shown((longer,), (FEED,)) == {"sources.feed.options.sep": (";", None)}


def test_what_needs_leave_is_not_hidden_in_a_group():
    shown = _shown((), (HUDI,))
    assert any("encryption_keys" in path for path in shown)


@given(st.sets(st.sampled_from(["a", "b", "c"])), st.sets(st.sampled_from(["a", "b", "c"])))
def test_every_source_that_comes_or_goes_is_named(before, after):
    def of(names):
        return tuple(replace(FEED, name=name, path=f"{name}/*.csv") for name in sorted(names))

    shown = _shown(of(before), of(after))
    assert {path for path, (old, new) in shown.items() if old is None} == {
        f"sources.{n}" for n in after - before
    }
    assert {path for path, (old, new) in shown.items() if new is None} == {
        f"sources.{n}" for n in before - after
    }
