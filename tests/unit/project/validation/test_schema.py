from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from parquetry import project
from parquetry.project.model import settings
from parquetry.project.model.resolved import Origin, ResolvedTable
from parquetry.project.model.table_tests import ITSELF, LIMITS, OF_ROWS, table_test
from parquetry.project.validation.definitions import Kind, bundled, inlined, schema
from parquetry.project.validation.template_syntax import is_template
from parquetry.project.validation.validators import validator
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import FilesPolicy, RetentionPolicy, TableSpec
from tests.support.repository import ROOT
from tests.support.spec_cases import CASES, TABLE, diagnostics_of, write_project
from tools import spec_reference as reference

DOCS = ROOT / "docs" / "reference"

# The keys that the specification language promises; a key may only be added.
PROMISED = [
    "location",
    "columns",
    "columns[].name",
    "columns[].type",
    "columns[].nullable",
    "columns[].description",
    "columns[].generated",
    "columns[].pii",
    "columns.file",
    "record_key",
    "key_scope",
    "ordering",
    "partition_by",
    "partitioning.hive_style",
    "partitioning.url_encode",
    "sizing.max_file_size",
    "sizing.small_file_limit",
    "sizing.insert_split_size",
    "sizing.record_size",
    "sizing.min_fill",
    "clustering.trigger",
    "clustering.every_commits",
    "clustering.existing",
    "clustering.plan.strategy",
    "clustering.plan.small_file_limit",
    "clustering.plan.target_file_size",
    "clustering.plan.max_group_size",
    "clustering.plan.max_groups",
    "clustering.plan.partitions.all",
    "clustering.plan.partitions.selected",
    "clustering.plan.partitions.regex",
    "clustering.plan.partitions.recent",
    "clustering.plan.partitions.skip_newest",
    "clustering.execution.strategy",
    "clustering.execution.columns",
    "clustering.execution.scope",
    "clustering.execution.split_by",
    "clustering.execution.then",
    "retention.clean.keep_commits",
    "retention.clean.keep_versions",
    "retention.clean.max_age",
    "retention.archive.keep_commits",
    "files.compression",
    "files.row_group_size",
    "files.page_size",
    "files.bloom_filter",
    "files.meta_columns",
    "files.encryption_key",
    "sources[].name",
    "sources[].format",
    "sources[].path",
    "sources[].options",
    "sources[].select",
    "sources[].operation",
    "sources[].read",
    "sources[].drop_duplicates",
    "sources[].delete_when",
    "sources[].drop",
    "sources[].match",
    "queries[].name",
    "queries[].where",
    "queries[].weight",
    "tests[].severity",
    "tests[].max_small_files",
    "tests[].file_size",
    "tests[].max_overlap_depth",
    "tests[].not_null",
    "tests[].unique",
    "tests[].expression",
    "apiVersion",
    "kind",
    "name",
    "description",
    "owner",
    "tags",
    "policy",
]


PROMISED_OF_PROJECTS = [
    "apiVersion",
    "kind",
    "name",
    "description",
    "default_target",
    "vars",
    "targets.<name>.warehouse",
    "targets.<name>.spark.launcher",
    "targets.<name>.spark.master",
    "targets.<name>.spark.submit_args",
    "targets.<name>.spark.conf",
    "targets.<name>.storage",
    "targets.<name>.budget.per_run",
    "targets.<name>.budget.per_apply",
    "targets.<name>.budget.per_commit",
    "targets.<name>.protect",
    "targets.<name>.overrides.sizing.max_file_size",
    "targets.<name>.overrides.clustering.trigger",
    "targets.<name>.overrides.retention.clean.keep_commits",
    "targets.<name>.overrides.budget.per_run",
    "targets.<name>.overrides.tags",
    "defaults.sizing.max_file_size",
    "defaults.clustering.existing",
    "defaults.retention.archive.keep_commits",
    "defaults.files.compression",
    "defaults.budget.per_run",
    "allow[].code",
    "allow[].table",
    "allow[].reason",
]

# Where the model keeps what stands under a key, if the two do not look alike.
ELSEWHERE = {
    "publish.iceberg.catalog": "publish.iceberg.catalog.name",
    "retention.partitions.keep": "retention.partitions.keep_days",
    "moved.from": "moved_from",
    "retention.clean.keep_commits": "retention.keep_commits",
    "retention.clean.keep_versions": "retention.keep_versions",
    "retention.clean.max_age": "retention.max_age",
    "retention.archive.keep_commits": "retention.archive_keep_commits",
    "partitioning.hive_style": "hive_style",
    "partitioning.url_encode": "url_encode",
}
# Keys without a value of their own in the model: what a file is, and what others stand for.
FORM = {
    *("apiVersion", "kind", "clustering.plan.partitions.all", "columns.file", "publish.delta"),
    "tests[].severity",
}
TESTS = {*LIMITS, *OF_ROWS}


def fields_of(kind: Any, prefix: str = "") -> Iterator[str]:
    """The paths of a resolved table, units left out, as a spec would write them."""
    for name, hint in get_type_hints(kind).items():
        inner = next((t for t in (hint, *get_args(hint)) if dataclasses.is_dataclass(t)), None)
        if inner is None or inner is Origin:
            yield f"{prefix}{name.removesuffix('_bytes').removesuffix('_seconds')}"
        else:
            yield from fields_of(inner, f"{prefix}{name}{'[]' if get_origin(hint) is tuple else ''}.")


def nodes(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for key, child in node.items():
            yield from nodes(child, f"{path}/{key}")
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from nodes(child, f"{path}/{index}")


def keys(node: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from keys(child, f"{prefix}{name}.")
        yield from keys(child.get("items", {}), f"{prefix}{name}[].")
        others = child.get("additionalProperties")
        yield from keys(others if isinstance(others, dict) else {}, f"{prefix}{name}.<name>.")


@pytest.mark.parametrize("kind", Kind)
def test_schemas_are_valid_and_closed(kind):
    Draft202012Validator.check_schema(schema(kind))
    for path, node in nodes(inlined(kind)):
        assert not {"oneOf", "anyOf", "allOf"} & set(node), path
        if "object" in (node.get("type") or ()):
            assert "additionalProperties" in node, f"{path} is not closed"
            assert node["additionalProperties"] is not True, f"{path} is not closed"


@pytest.mark.parametrize("kind", Kind)
def test_each_property_is_described(kind):
    for path, node in nodes(inlined(kind)):
        if path.endswith("/if"):
            continue
        for name, child in node.get("properties", {}).items():
            assert child.get("description", "").endswith("."), f"{path}/{name} has no description"
            assert "title" in child or "enum" in child or "const" in child, f"{path}/{name} has no title"
            if "default" in child and "clustering/properties/plan/properties/partitions" not in path:
                shown = json.dumps(child["default"]).strip('"')
                assert f"Default: {shown}" in child["description"], f"{path}/{name} does not say its default"


def test_table_keys_are_those_promised():
    found = set(keys(inlined(Kind.TABLE)))
    assert set(PROMISED) <= found


def test_project_keys_are_those_promised():
    assert set(PROMISED_OF_PROJECTS) <= set(keys(inlined(Kind.PROJECT)))


def test_the_model_holds_every_key_of_a_table_and_nothing_else():
    schema_keys = set(keys(inlined(Kind.TABLE)))
    leaves = {
        key for key in schema_keys if not any(k.startswith((f"{key}.", f"{key}[]")) for k in schema_keys)
    }
    leaves = {key for key in leaves if not key.startswith("tests[]")} - FORM
    computed = {"file", "location_declared", "settings", "origins", "history"}
    computed.add("clustering.execution.encryption_key")  # files.encryption_key once more
    computed |= {f"publish.iceberg.catalog.{field}" for field in ("type", "options")}  # of the target
    fields = {field.removeprefix("spec.").removeprefix("extra.") for field in fields_of(ResolvedTable)}
    held = {field for field in fields if not field.startswith("tests[]")} - computed
    assert {ELSEWHERE.get(key, key) for key in leaves} == held


def test_every_kind_of_test_reaches_the_model():
    kinds = inlined(Kind.TABLE)["properties"]["tests"]["items"]["properties"]
    assert set(kinds) == TESTS | {"name", "severity", "where", "max_failures"}
    for kind, limits in LIMITS.items():
        properties = kinds[kind].get("properties", {})
        assert {key for key, value in properties.items() if "warn" in value.get("properties", {})} <= set(
            limits
        )
        assert (ITSELF in limits) == ("warn" in properties), kind
    assert table_test({"max_skew": 1, "severity": "warn"}).severity == "warn"


@pytest.mark.parametrize("kind", Kind)
def test_bundled_schema_says_the_same(kind):
    alone = Draft202012Validator(json.loads(json.dumps(bundled(kind))))
    for _, node in nodes(bundled(kind)):
        assert str(node.get("$ref", "#")).startswith("#"), "a reference leads out"
    import yaml

    for case in CASES:
        if case.kind == kind and not case.path.stem.startswith("yaml_"):
            try:
                value = yaml.safe_load(case.path.read_text())
            except yaml.YAMLError:
                continue
            if is_template(case.path.read_text()):
                # An editor accepts a template in the place of a word, `validate` evaluates it first.
                assert alone.is_valid(value) or not validator(kind).is_valid(value), case.path
                continue
            assert alone.is_valid(value) == validator(kind).is_valid(value), case.path


def test_built_in_defaults_are_those_of_the_runtime(tmp_path):
    (table,) = project.load(write_project(tmp_path, {"tables/flights.yml": TABLE})).project.tables
    spec = table.spec
    assert spec.sizing == SizingPolicy()
    assert spec.files == FilesPolicy()
    assert spec.retention == RetentionPolicy()


def test_built_in_layer_has_every_default():
    assert settings.built_in_settings()["clustering"]["plan"]["max_groups"] == 30
    assert settings.built_in_budget() == {"per_run": "10GiB"}


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.verdict == "positive"],
    ids=lambda case: f"{case.kind}/{case.path.stem}",
)
def test_specs_are_what_the_runtime_records(case, tmp_path):
    assert [*diagnostics_of(case, tmp_path)] == []
    for table in project.load(tmp_path).project.tables:
        fields = table.spec.to_json()
        assert json.loads(json.dumps(fields)) == fields
        assert TableSpec.from_json(fields).to_json() == fields


@pytest.mark.parametrize("page", sorted(reference.PAGES))
def test_reference_pages_are_current(page):
    hint = "run `python -m tools.spec_reference`"
    assert (DOCS / page).read_text(encoding="utf-8") == reference.PAGES[page](), hint


def test_reference_names_every_key():
    text = reference.spec_page()
    for key in PROMISED:
        section, _, rest = key.partition(".")
        shown = (
            rest
            if section in {"sizing", "clustering", "retention", "files", "partitioning"} and rest
            else key
        )
        assert f"| `{shown}` |" in text, key
