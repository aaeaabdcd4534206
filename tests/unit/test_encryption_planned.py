"""What plans and specs say of a key: the reference, once, and what it makes due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.compiler.changes import spec_changes
from parquetry.compiler.plan import ChangeClass
from parquetry.runtime.codec import to_json_value
from parquetry.runtime.layout.clustering_policy import ClusteringSpec, ExecutionPolicy, Existing, Trigger
from parquetry.runtime.spec import Column, FilesPolicy, TableSpec

PLAIN = TableSpec(name="t", columns=(Column(name="id", type="string"),))


def with_key(key, existing=Existing.GRADUAL, then=("encrypt",)):
    execution = ExecutionPolicy(then=then, encryption_key=key if "encrypt" in then else None)
    section = ClusteringSpec(trigger=Trigger.ASYNC, existing=existing, execution=execution)
    return replace(PLAIN, files=FilesPolicy(encryption_key=key), extra={"clustering": to_json_value(section)})


def changes(old, new):
    found = spec_changes(old, new, origin=lambda path: None)
    return {change.path: (change.old, change.new, change.change_class) for change in found}


@pytest.mark.parametrize(
    ("existing", "then", "change_class"),
    [
        (Existing.GRADUAL, ("encrypt",), ChangeClass.POLICY),
        (Existing.NOW, ("encrypt",), ChangeClass.REWRITE),
        (Existing.NOW, ("prune",), ChangeClass.POLICY),
    ],
)
def test_another_key_is_one_change(existing, then, change_class):
    old, new = (with_key(key, existing, then) for key in ("env:A", "env:B"))
    assert changes(old, new) == {"files.encryption_key": ("env:A", "env:B", change_class)}


def test_a_first_key_is_a_change():
    new = replace(PLAIN, files=FilesPolicy(encryption_key="env:A"))
    assert changes(PLAIN, new) == {"files.encryption_key": (None, "env:A", ChangeClass.POLICY)}


def test_specs_without_a_key_stay_what_they_were():
    assert "encryption_key" not in PLAIN.to_json()["files"]
    keyed = with_key("env:A")
    assert TableSpec.from_json(keyed.to_json()) == keyed


def test_digests_of_policies_that_encrypt_nothing_stay_what_footers_carry():
    stitched, a, b = (
        ExecutionPolicy(),
        *(ExecutionPolicy(then=("encrypt",), encryption_key=key) for key in ("env:A", "env:B")),
    )
    # The digest of the first release.
    assert stitched.digest == "03595f5025677caa"
    assert len({stitched.digest, a.digest, b.digest}) == 3
