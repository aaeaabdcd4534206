from __future__ import annotations

from pathlib import Path

import pytest

from parquetry.project.model.locations import LocationProblem, absolute, contains, joined


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("warehouse", "t", "warehouse/t"),
        ("./warehouse/", "a//b/./c/", "warehouse/a/b/c"),
        (".", "t", "t"),
        ("", "a/../b", "b"),
        ("warehouse", ".", "warehouse"),
        ("/data/lake", "t", "/data/lake/t"),
        ("/data/lake", "/else//t", "/else/t"),
        ("s3a://b/lake/", "t", "s3://b/lake/t"),
        ("S3://b", "t", "s3://b/t"),
        ("s3://b//x", "s3a://c//y/", "s3://c/y"),
        ("GS://b//x/", "t", "gs://b/x/t"),
        ("warehouse", "file:///data/t", "/data/t"),
        ("warehouse", "file:/data/a%20b", "/data/a b"),
        ("warehouse", "file://localhost/data", "/data"),
        ("warehouse", "in/*.parquet", "warehouse/in/*.parquet"),
        ("warehouse", "/data/../x", "/x"),
    ],
)
def test_joined(base, path, expected):
    assert joined(base, path) == expected


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("..", "PQ011"),
        ("../x", "PQ011"),
        ("a/../../x", "PQ011"),
        ("s3://b/../x", "PQ011"),
        ("~/x", "PQ306"),
        ("~root", "PQ306"),
        ("gcs://b/x", "PQ306"),
        ("abfss://c@account.dfs.core.windows.net/x", "PQ306"),
        ("wasbs://c@account.blob.core.windows.net/x", "PQ306"),
        ("r2://b/x", "PQ306"),
        ("gs:///x", "PQ306"),
        ("hdfs:///x", "PQ306"),
        ("s3:x", "PQ306"),
        ("s3://", "PQ306"),
        ("s3:///x", "PQ306"),
        ("file://host/x", "PQ306"),
        ("C:\\data", "PQ306"),
    ],
)
def test_refused(path, code):
    with pytest.raises(LocationProblem) as caught:
        joined("warehouse", path)
    assert caught.value.code == code


def test_absolute():
    assert absolute(Path("/project"), "warehouse/t") == "/project/warehouse/t"
    assert absolute(Path("/project"), "/data") == "/data"
    assert absolute(Path("/project"), "s3://b/x") == "s3://b/x"


def test_contains():
    assert contains("/a/b", "/a/b")
    assert contains("/a/b", "/a/b/c")
    assert not contains("/a/b", "/a/bc")
    assert contains("/", "/a")
