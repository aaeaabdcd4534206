from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.files import OptionsView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.exports import create_statement, export_tables
from parquetry.compiler.spec_files.hudi_options import hudi_options, settings_of
from parquetry.compiler.spec_words import document, flatten
from parquetry.project.validation.definitions import Kind, schema
from parquetry.runtime.spec.codec import from_json_value
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, KeyScope, Locks, RetentionPolicy
from parquetry.runtime.table.properties import parse_properties
from tests.support.handmade import spec
from tests.support.project_folder import ProjectFolder

CODECS = schema(Kind.POLICY)["$defs"]["files"]["properties"]["compression"]["enum"]
CLUSTERED = {
    "trigger": "inline",
    "every_commits": 4,
    "existing": "gradual",
    "plan": {
        "strategy": "size",
        "small_file_limit_bytes": 100,
        "target_file_size_bytes": 120,
        "max_group_size_bytes": 1000,
        "max_groups": 30,
        "partitions": {"selected": [], "regex": None, "recent": 7, "skip_newest": 1},
    },
    "execution": {"strategy": "zorder", "columns": ["n"], "scope": "auto", "split_by": [], "then": []},
}


def clustered(**changes):
    return from_json_value(Extra, {"clustering": CLUSTERED | changes}, place="extra")


def options(**changes):
    return hudi_options(spec(**changes)).options


@given(
    largest=st.integers(1, 2**40),
    limit=st.integers(0, 2**40),
    record=st.none() | st.integers(1, 10**6).filter(lambda size: size != 1024),
    row_group=st.none() | st.integers(1, 2**30),
    codec=st.sampled_from(CODECS),
    kept=st.integers(1, 50),
)
def test_options_say_the_settings_they_came_from(largest, limit, record, row_group, codec, kept):
    declared = spec(
        sizing=SizingPolicy(
            max_file_size_bytes=largest, small_file_limit_bytes=limit, record_size_bytes=record
        ),
        files=FilesPolicy(compression=codec, row_group_size_bytes=row_group),
        retention=RetentionPolicy(keep_commits=kept, archive_keep_commits=kept + 1),
    )
    words = flatten(document(declared))
    found = settings_of(hudi_options(declared).options)
    assert {path: str(value) for path, value in found.items()} == {path: str(words[path]) for path in found}
    assert set(found) >= {
        "sizing.max_file_size",
        "sizing.small_file_limit",
        "files.compression",
        "retention.clean.keep_commits",
    }


def test_clustering_goes_there_and_back():
    found = options(extra=clustered())
    assert found["hoodie.clustering.inline"] == "true"
    assert found["hoodie.clustering.inline.max.commits"] == "4"
    assert found["hoodie.clustering.plan.partition.filter.mode"] == "RECENT_DAYS"
    assert settings_of(found)["clustering.execution.columns"] == ["n"]
    assert settings_of(found)["clustering.execution.strategy"] == "zorder"
    off = options(extra=clustered(trigger="off"))
    assert not [key for key in off if "clustering" in key]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"partition_by": ()}, ("NonpartitionedKeyGenerator", "")),
        ({"partition_by": ("p",)}, ("SimpleKeyGenerator", "p")),
        ({"partition_by": ("p", "n")}, ("CustomKeyGenerator", "p:SIMPLE,n:SIMPLE")),
        ({"record_key": ("id", "n"), "partition_by": ("p",)}, ("ComplexKeyGenerator", "p")),
    ],
)
def test_keys_are_spelled_as_in_the_manual(changes, expected):
    found = options(**changes)
    assert found["hoodie.datasource.write.keygenerator.class"].rpartition(".")[2] == expected[0]
    assert found["hoodie.datasource.write.partitionpath.field"] == expected[1]


def test_the_index_follows_the_scope_of_the_key_and_guards_are_always_there():
    assert options()["hoodie.index.type"] == "SIMPLE"
    assert options(key_scope=KeyScope.TABLE)["hoodie.index.type"] == "GLOBAL_SIMPLE"
    assert "hoodie.index.type" not in options(record_key=())
    assert options()["hoodie.metadata.enable"] == "false"
    assert options()["hoodie.write.table.version"] == "6"
    assert options(table_version=9)["hoodie.write.table.version"] == "9"


def test_a_storage_lock_has_its_options_and_those_of_writers_at_the_same_time():
    assert not [key for key in options() if ".lock." in key]
    locked = options(locks=Locks.STORAGE)
    assert locked["hoodie.write.lock.provider"].endswith(".StorageBasedLockProvider")
    assert locked["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert locked["hoodie.cleaner.policy.failed.writes"] == "LAZY"


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (RetentionPolicy(keep_commits=3), "KEEP_LATEST_COMMITS"),
        (RetentionPolicy(keep_commits=None, max_age_seconds=5000), "KEEP_LATEST_BY_HOURS"),
        (RetentionPolicy(keep_commits=None, keep_versions=2), "KEEP_LATEST_FILE_VERSIONS"),
    ],
)
def test_hudi_follows_one_rule_of_retention(policy, rule):
    assert options(retention=policy)["hoodie.cleaner.policy"] == rule
    assert options(retention=policy).get("hoodie.cleaner.hours.retained") in (None, "2")


def test_hudi_always_archives_less_than_it_keeps():
    kept = options(retention=RetentionPolicy(keep_commits=50, archive_keep_commits=30))
    assert int(kept["hoodie.keep.min.commits"]) > int(kept["hoodie.cleaner.commits.retained"])
    assert int(kept["hoodie.keep.max.commits"]) > int(kept["hoodie.keep.min.commits"])


def test_what_has_no_counterpart_is_said():
    rules = RetentionPolicy(keep_commits=3, max_age_seconds=3600)
    execution = CLUSTERED["execution"] | {"strategy": "stitch", "split_by": ["p"]}
    said = hudi_options(spec(retention=rules, extra=clustered(execution=execution))).unmatched
    assert [part.split(":")[0] for part in said] == [
        "retention.clean",
        "clustering.execution.strategy stitch",
        "clustering.execution.split_by",
    ]


def test_the_printed_options_are_a_java_property_file(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    regex = r"city=O\w+"
    folder.orders(clustering={"trigger": "async", "plan": {"partitions": {"regex": regex}}})
    (export,) = export_tables(folder.workspace())
    text = OptionsView().text((export,), Paint(enabled=False))
    assert parse_properties(text.encode()) == export.options.options
    assert export.options.options["hoodie.clustering.plan.strategy.partition.regex.pattern"] == regex


def test_options_of_a_renamed_table_have_the_name_that_is_in_its_properties(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=1_800_000_000_000), workspace).failure is None
    properties = parse_properties((folder.root / "warehouse/orders/.hoodie/hoodie.properties").read_bytes())
    folder.orders(name="sales", location="orders", moved={"from": "orders"})
    (export,) = export_tables(folder.workspace())
    assert export.table == "sales"
    assert export.options.options["hoodie.table.name"] == properties["hoodie.table.name"] == "orders"


def test_the_statement_quotes_what_people_write():
    declared = dataclasses.replace(
        spec(columns=(Column(name="id", type="string", nullable=False, description="the 'id'\n\\"),)),
        partition_by=(),
        extra=Extra(description="it's"),
    )
    text = create_statement(declared, location="s3://lake/t")
    assert "`id` string NOT NULL COMMENT 'the \\'id\\'\\n\\\\'" in text
    assert "COMMENT 'it\\'s'" in text
    assert "LOCATION 's3a://lake/t'" in text
    assert text.endswith(");\n")


@pytest.mark.parametrize(
    ("meta", "expected", "is_unmatched"),
    [
        (MetaColumns.ALL, None, False),
        (MetaColumns.COMMIT_TIME, "false", True),
        (MetaColumns.NONE, "false", False),
    ],
)
def test_a_job_fills_the_meta_columns_that_the_table_has(meta, expected, is_unmatched):
    declared = spec(files=FilesPolicy(meta_columns=meta))
    assert hudi_options(declared).options.get("hoodie.populate.meta.fields") == expected
    assert any("meta_columns" in line for line in hudi_options(declared).unmatched) is is_unmatched
