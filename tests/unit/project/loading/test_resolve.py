"""Tables resolved from their layers: values, their origins, locations, and what broken parts leave open."""

from __future__ import annotations

from tests.support.spec_cases import (
    ENVIRONMENT,
    POLICY,
    TABLE,
    TARGETS,
    codes,
    loaded,
    table_named,
    write_project,
)


def test_locations(tmp_path):
    files = {
        "tables/a.yml": table_named("a"),
        "tables/b.yml": table_named("b", "location: sub/./b\n"),
        "tables/c.yml": table_named("c", "location: /data//c\n"),
        "tables/d.yml": table_named("d", "location: s3a://bucket/x/d\n"),
    }
    found = loaded(write_project(tmp_path, files)).tables
    root = tmp_path.resolve().as_posix()
    assert [table.location for table in found] == [
        f"{root}/warehouse/a",
        f"{root}/warehouse/sub/b",
        "/data/c",
        "s3://bucket/x/d",
    ]
    assert [table.location_declared for table in found] == [
        "warehouse/a",
        "warehouse/sub/b",
        "/data/c",
        "s3://bucket/x/d",
    ]


def test_layers_and_origins(tmp_path):
    files = {
        "parquetry.yml": TARGETS.replace("{{ env_var('CEILING') }}", "200MiB"),
        "policies/standard.yml": POLICY
        + "sizing: {small_file_limit: 90MiB, record_size: 1KiB, min_fill: 0.2}\n",
        "tables/flights.yml": TABLE
        + "policy: standard\ntags: [gold]\nsizing: {record_size: 2KiB, max_file_size: 150MiB}\n",
    }
    (table,) = loaded(write_project(tmp_path, files), target="prod", environment=ENVIRONMENT).tables
    assert table.spec.sizing.max_file_size_bytes == 200 << 20
    assert table.spec.sizing.record_size_bytes == 2 << 10
    assert table.spec.sizing.small_file_limit_bytes == 90 << 20
    assert table.spec.sizing.min_fill == 0.2
    assert table.tags == ("lake", "gold", "prod")
    origins = {
        key: str(table.origin(f"sizing.{key}"))
        for key in ("max_file_size", "record_size", "small_file_limit", "insert_split_size")
    }
    assert origins == {
        "max_file_size": "parquetry.yml:18:16",
        "record_size": "tables/flights.yml:9:10",
        "small_file_limit": "policies/standard.yml:5:10",
        "insert_split_size": "default",
    }
    assert table.origin("retention.archive.keep_commits").layer == "policy"
    assert table.declared("sizing.max_file_size") == "200MiB"
    assert table.declared("sizing.insert_split_size") == "auto"
    assert str(table.origin("columns.id.nullable")) == "tables/flights.yml:5:30"
    assert str(table.origin("columns.id.description")) == "tables/flights.yml:5:5"
    assert str(table.origin("nothing.at.all")) == "default"
    (table,) = loaded(tmp_path).tables
    assert (table.spec.sizing.max_file_size_bytes, table.tags) == (150 << 20, ("lake", "gold"))


def test_clustering_sizes_follow_sizing(tmp_path):
    files = {
        "tables/a.yml": table_named("a", "sizing: {max_file_size: 60MiB, small_file_limit: 0}\n"),
        "tables/b.yml": table_named("b", "sizing: {max_file_size: 60MiB, small_file_limit: 30MiB}\n"),
    }
    first, second = loaded(write_project(tmp_path, files)).tables
    assert first.spec.clustering.plan.target_file_size_bytes == 60 << 20
    assert first.spec.clustering.plan.small_file_limit_bytes == 50 << 20
    assert second.spec.clustering.plan.small_file_limit_bytes == 30 << 20
    assert (first.spec.clustering.execution.strategy, first.spec.clustering.execution.columns) == (
        "stitch",
        (),
    )


def test_formatting_and_order_change_nothing(tmp_path):
    tidy = TABLE + "sizing: {max_file_size: 64MiB, small_file_limit: 32MiB}\nowner: team\n"
    lines = [
        "# a comment",
        "owner: 'team'",
        "record_key:",
        "- id",
        "sizing:",
        "    small_file_limit: 32MiB # half",
        "    max_file_size: '64MiB'",
        "kind: table",
        "columns: [{nullable: false, type: STRING, name: id}]",
        "name: flights",
        'apiVersion: "parquetry/v1"',
    ]
    first = loaded(write_project(tmp_path / "one", {"tables/flights.yml": tidy})).tables[0]
    second = loaded(write_project(tmp_path / "two", {"tables/air/flights.yml": "\r\n".join(lines)})).tables[0]
    assert first.spec == second.spec
    assert first.location_declared == second.location_declared


def test_no_findings_are_made_up_around_broken_parts(tmp_path):
    broken = (
        TABLE.replace("type: string", "type: strnig")
        + "ordering: id\nsizing: {max_file_size: 1, small_file_limit: 1GiB}\n"
    )
    root = write_project(tmp_path, {"tables/flights.yml": broken})
    assert [code for code, _ in codes(root)] == ["PQ403", "PQ106"]
    broken = TABLE.replace("type: string", 'type: "{{ string"') + "ordering: id\n"
    root = write_project(tmp_path, {"tables/flights.yml": broken})
    assert codes(root) == [("PQ201", "tables/flights.yml")]
    root = write_project(
        tmp_path, {"parquetry.yml": "vars: [", "tables/flights.yml": TABLE + "owner: \"{{ var('x') }}\"\n"}
    )
    assert codes(root) == [("PQ002", "parquetry.yml")]
