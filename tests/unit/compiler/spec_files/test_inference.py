"""`init --from`: columns, types and a source from files, none narrower than what the files hold."""

from __future__ import annotations

import csv
import decimal
import gzip

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.main import command_line
from parquetry.compiler.spec_files import inference
from parquetry.compiler.spec_files.inference import InferenceError, infer_table


def columns_of(path, root=None):
    document = infer_table(path, root=root or path.parent, name=None).document
    return {column["name"]: column["type"] for column in document["columns"]}


def write_csv(path, header, *rows, **settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as handle:
        csv.writer(handle, **settings).writerows([header, *rows])
    return path


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-20", ""], "bigint"),
        (["1", "2.5"], "double"),
        (["1.50", "-2.05"], "decimal(18,2)"),
        (["1.5", "2.05"], "double"),
        (["1e3", "2"], "double"),
        (["007", "12"], "string"),
        (["1,5"], "string"),
        (["99999999999999999999", "1"], "decimal(38,0)"),
        (["99999999999999999999", "1.5"], "string"),
        (["0.1234567890123456", "1"], "double"),
        (["true", "False"], "boolean"),
        (["2024-01-31", "1999-12-01"], "date"),
        (["2024-1-3"], "string"),
        (["2024-01-31", "2024-01-31 10:00:00"], "string"),
        (["2024-01-31T10:00:00Z", "2024-01-31 10:00:00.123456+02:00"], "timestamp"),
        (["2024-01-31 10:00:00.1234567"], "string"),
        (["", ""], "string"),
        ([" 1"], "string"),
        (["NaN"], "string"),
    ],
)
def test_a_column_has_the_narrowest_type_that_keeps_every_text(tmp_path, cells, kind):
    rows = [["k", cell] for cell in cells]
    assert columns_of(write_csv(tmp_path / "a.csv", ["k", "v"], *rows)) == {"k": "string", "v": kind}


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12),
        min_size=1,
    )
)
def test_decimals_of_one_scale_fit_the_type(tmp_path_factory, values):
    path = write_csv(
        tmp_path_factory.mktemp("rows") / "a.csv", ["k", "v"], *(["x", f"{v:f}"] for v in values)
    )
    assert columns_of(path)["v"] == "decimal(18,3)"
    with decimal.localcontext(prec=18):
        assert all(+value == value for value in values)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_source_says_how_the_text_is_cut(tmp_path, separator):
    write_csv(tmp_path / "in" / "a.csv", ["id", "a,b;c"[:1]], [1, f'x{separator}"\ny'], delimiter=separator)
    document = infer_table(tmp_path / "in", root=tmp_path, name="t").document
    (source,) = document["sources"]
    assert source["path"] == "in/*.csv"
    assert source["options"].pop("sep", ",") == separator
    assert source["options"] == {"multiLine": True}


def test_compressed_files_in_folders_of_a_folder_are_read(tmp_path):
    inner = tmp_path / "in" / "2024"
    inner.mkdir(parents=True)
    (inner / "a.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfid,v\n1,x\n"))
    document = infer_table(tmp_path / "in", root=tmp_path, name=None).document
    assert [column["name"] for column in document["columns"]] == ["id", "v"]
    assert document["sources"][0]["path"] == "in/**/*.csv.gz"
    assert document["name"] == "in"


def test_files_with_other_columns_and_widths_are_united(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "n": pa.nulls(1)}), tmp_path / "a.parquet")
    pd.DataFrame({"a": [2]}, index=["left"]).to_parquet(tmp_path / "b.parquet")
    found = infer_table(tmp_path, root=tmp_path, name="t")
    assert [(c["name"], c["type"]) for c in found.document["columns"]] == [("a", "bigint"), ("n", "string")]
    assert any("n" in note and "no value" in note for note in found.notes)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("ms", tz="UTC"), "timestamp"),
        (pa.date64(), "date"),
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.list_(pa.int32()), "array<int>"),
        (pa.decimal128(9, 2), "decimal(9,2)"),
        (pa.float16(), "float"),
        (pa.list_(pa.null()), "array<string>"),
        (pa.struct([("t", pa.timestamp("ns")), ("n", pa.null())]), "struct<t:timestamp,n:string>"),
    ],
)
def test_types_of_parquet_become_types_of_columns(tmp_path, kind, expected):
    pq.write_table(pa.table({"v": pa.array([], kind)}), tmp_path / "a.parquet")
    assert columns_of(tmp_path / "a.parquet") == {"v": expected}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no Parquet or CSV files"),
        ({"a.json": b"{}"}, "a.json does not end as a Parquet or CSV file"),
        ({"a.csv": b"a\n1\n", "b.parquet": b""}, "files of several formats"),
        ({"a.csv": b"Order ID,v\n1,2\n"}, 'unlike "Order ID"'),
        (
            {"a.csv": "Order-ID,v,€\n1,2,3\n".encode()},
            "with a select .*: SELECT `Order-ID` AS Order_ID, v, `€` AS column FROM",
        ),
        ({"a.csv": b"a,A\n1,2\n"}, 'the columns "a" and "A" differ only in case'),
        ({"a.csv": b"a,b,a\n1,x,2\n"}, 'a.csv: columns 1 and 3 are both named "a"; rename one of them'),
        ({"a.csv": b"\xef\xbb\xbfa;b;a\n"}, 'columns 1 and 3 are both named "a"'),
        ({"a.csv": b"a,1a\n1,2\n"}, 'no digit at their start, unlike "1a"'),
        ({"a.csv": b"a,b\n1,2,3\n"}, "a.csv: .*Expected 2 columns, got 3"),
        ({"a.csv": b"a,b\n\xff,2\n"}, "a.csv is not UTF-8; .* declare encoding"),
        ({"a.csv": b""}, "Empty CSV file"),
        ({"a.parquet": b"PAR1"}, "does not end like a parquet file"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, files, message):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with pytest.raises(InferenceError, match=message):
        infer_table(folder, root=tmp_path, name=None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([pa.array([1], pa.timestamp("ns"))], "a0.parquet: column 'v' is timestamp.* would lose data"),
        ([pa.array([[1]], pa.list_(pa.timestamp("ns")))], "column 'v.element' is timestamp"),
        ([pa.array([2**60 + 1]), pa.array([0.5])], "a0.parquet: column 'v' is int64 in the rows and double"),
        (
            [pa.array([1]), pa.array([2]), pa.array(["x"])],
            "a2.parquet: column .v. is string, and int64 in files before it",
        ),
        (
            [pa.array([1], pa.time64("us"))],
            "has the type time64.us., which tables do not have; write the time",
        ),
        ([pa.array([1], pa.duration("us"))], "has the type duration.us., which tables do not have"),
    ],
)
def test_no_spec_is_written_for_values_that_a_run_refuses(tmp_path, columns, message):
    for number, values in enumerate(columns):
        pq.write_table(pa.table({"v": values}), tmp_path / f"a{number}.parquet")
    with pytest.raises(InferenceError, match=message):
        infer_table(tmp_path, root=tmp_path, name="t")


def test_no_spec_is_written_for_old_timestamps_with_nanoseconds(tmp_path):
    rows = pa.table({"v": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(InferenceError, match="column 'v' has nanoseconds; round it"):
        infer_table(tmp_path, root=tmp_path, name="t")


def test_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path):
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(InferenceError, match='columns 1 and 2 are both named "a"'):
        infer_table(tmp_path / "a.parquet", root=tmp_path, name=None)


@pytest.mark.parametrize(
    ("file", "name"), [("a.csv", "t" * 300), ("a.csv", "a b"), (f"{'t' * 200}.csv", None)]
)
def test_a_name_that_no_table_has_is_refused(tmp_path, file, name):
    write_csv(tmp_path / file, ["a"], [1])
    with pytest.raises(InferenceError, match="a name has at most 128 letters"):
        infer_table(tmp_path / file, root=tmp_path, name=name)


def test_files_of_hudi_tables_are_adopted_instead(tmp_path):
    pq.write_table(pa.table({"_hoodie_commit_time": ["1"], "a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InferenceError, match="parquetry adopt"):
        infer_table(tmp_path, root=tmp_path, name="t")


def test_a_note_says_how_much_was_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(inference, "MOST_FILES", 1)
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", ["v"], ["1"])
    assert (
        "columns and types are those of 1 of 2 files" in infer_table(tmp_path, root=tmp_path, name="t").notes
    )


def test_a_path_that_leads_up_becomes_one_that_validate_accepts(tmp_path, monkeypatch):
    root = tmp_path / "lake"
    write_csv(tmp_path / "exports/taxis.csv", ["id"], ["1"])
    write_csv(root / "landing/trips.csv", ["id"], ["1"])
    assert CliRunner().invoke(command_line, ["init", str(root)]).exit_code == 0
    monkeypatch.chdir(root)
    for path in ("../exports/taxis.csv", "../lake/landing/trips.csv"):
        assert CliRunner().invoke(command_line, ["init", "--from", path]).exit_code == 0
    sources = [
        yaml.safe_load((root / f"tables/{name}.yml").read_text())["sources"][0] for name in ("taxis", "trips")
    ]
    assert [source["path"] for source in sources] == [f"{tmp_path}/exports/taxis.csv", "landing/trips.csv"]
    done = CliRunner().invoke(command_line, ["validate"])
    assert done.exit_code == 0, done.output


def test_a_project_gets_the_table_and_plans_it(tmp_path):
    write_csv(tmp_path / "in" / "a.csv", ["id", "v"], [1, "x"])
    run = CliRunner()
    for arguments in (
        ["init", tmp_path, "--from", tmp_path / "in"],
        ["init", tmp_path, "--from", tmp_path / "in", "--name", "again"],
    ):
        made = run.invoke(command_line, [str(argument) for argument in arguments])
        assert made.exit_code == 0, made.output
    assert not (tmp_path / "landing").exists()
    for command in (["validate"], ["fmt", "--check"], ["plan"]):
        done = run.invoke(command_line, [*command, "--project", str(tmp_path)])
        assert done.exit_code == 0, done.output
    assert yaml.safe_load((tmp_path / "tables/again.yml").read_text())["name"] == "again"
    taken = run.invoke(command_line, ["init", str(tmp_path), "--from", str(tmp_path / "in")])
    assert "already exists" in taken.output
    assert taken.exit_code != 0
    assert run.invoke(command_line, ["init", str(tmp_path / "x"), "--name", "t"]).exit_code == 2
