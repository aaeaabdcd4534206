from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from parquetry.runtime.arrow.conform import Conformer, conform
from parquetry.runtime.errors import InvalidDataError

ELEMENT = pa.field("element", pa.int64())
OLD = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.field("array", pa.float32())))])
NEW = pa.struct(
    [
        pa.field("b", pa.list_(pa.field("element", pa.float64()))),
        pa.field("c", pa.string()),
        pa.field("a", pa.int64()),
    ]
)
STRUCTS = [{"a": 1, "b": [1.5, None]}, None, {"a": None, "b": None}, {"a": 2**31 - 1, "b": []}]
WIDER = [
    {"b": [1.5, None], "c": None, "a": 1},
    None,
    {"b": None, "c": None, "a": None},
    {"b": [], "c": None, "a": 2**31 - 1},
]


@pytest.mark.parametrize(
    ("values", "have", "wanted", "expected"),
    [
        ([1, None, -(2**31)], pa.int32(), pa.int64(), None),
        ([1, None, 127], pa.int8(), pa.int32(), None),
        ([1, None, -5], pa.int32(), pa.float64(), [1.0, None, -5.0]),
        ([1.5, None, float("inf")], pa.float32(), pa.float64(), None),
        ([Decimal("1.20"), None], pa.decimal128(5, 2), pa.decimal128(6, 2), None),
        ([-1, None, 0], pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC"), [-1000, None, 0]),
        ([-1, None, 0], pa.timestamp("us", tz="Asia/Tokyo"), pa.timestamp("us", tz="UTC"), None),
        ([b"x", None], pa.binary(), pa.string(), ["x", None]),
        (["x", None], pa.large_string(), pa.string(), None),
        (["x", None, "x"], pa.dictionary(pa.int32(), pa.string()), pa.string(), None),
        ([None, None], pa.null(), pa.string(), None),
        ([[1, None], None, []], pa.list_(pa.field("item", pa.int32())), pa.list_(ELEMENT), None),
        ([[1, None], None, []], pa.large_list(pa.int32()), pa.list_(ELEMENT), None),
        ([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), None),
        (STRUCTS, OLD, NEW, WIDER),
        ([STRUCTS, None], pa.list_(OLD), pa.list_(NEW), [WIDER, None]),
        (
            [[("k", STRUCTS[0])], None],
            pa.map_(pa.string(), OLD),
            pa.map_(pa.string(), NEW),
            [[("k", WIDER[0])], None],
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("skipped", [0, 1])
def test_values_survive_a_wider_type(values, have, wanted, expected, skipped):
    if pa.types.is_timestamp(have):
        array = pa.array(values, pa.int64()).cast(have)
        expected = pa.array(values if expected is None else expected, pa.int64()).cast(wanted).to_pylist()
    else:
        array = pa.array(values, have)
    found = conform(array.slice(skipped), wanted)
    found.validate(full=True)
    assert found.type.equals(wanted)
    assert found.to_pylist() == (values if expected is None else expected)[skipped:]


def test_values_hidden_below_a_null_list_stay_hidden():
    mask = pa.array([False, True, False])
    array = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4]), pa.array([1, 2, 3, 4], pa.int32()), mask=mask)
    assert conform(array, pa.list_(ELEMENT)).to_pylist() == [[1], None, [4]]


def test_columns_are_found_by_name_and_missing_ones_are_null():
    source = pa.record_batch({"b": pa.array([1], pa.int32()), "surplus": [True], "a": ["x"]})
    wanted = pa.schema(
        [pa.field("a", pa.string(), nullable=False), ("b", pa.int64()), ("c", pa.list_(ELEMENT))]
    )
    conformer = Conformer(source.schema, wanted, place="here")
    assert conformer(source).to_pylist() == [{"a": "x", "b": 1, "c": None}]
    assert conformer.schema.equals(wanted)


def test_dictionaries_of_the_wanted_type_stay():
    batch = pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()})
    conformer = Conformer(batch.schema, pa.schema([("a", pa.string())]), place="here")
    assert conformer(batch).column(0).equals(batch.column(0))


@pytest.mark.parametrize(
    ("column", "wanted", "words"),
    [
        (pa.array([2**40]), pa.int32(), "column 'a' of type int64 cannot be stored as int32"),
        (pa.array(["x"]), pa.list_(ELEMENT), "column 'a' of type string"),
        (
            pa.array([{"x": 1}]),
            pa.struct([pa.field("y", pa.int64(), nullable=False)]),
            "the field 'y' is missing",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(column, wanted, words):
    batch = pa.record_batch({"a": column})
    with pytest.raises(InvalidDataError, match=words) as failure:
        Conformer(batch.schema, pa.schema([("a", wanted)]), place="the file f")(batch)
    assert "the file f" in str(failure.value)


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_a_required_column_must_be_there_once(names):
    source = pa.schema([(name, pa.string()) for name in names])
    with pytest.raises(InvalidDataError, match="the required column 'a' is missing"):
        Conformer(source, pa.schema([pa.field("a", pa.string(), nullable=False)]), place="here")
