"""Key generators on which Hudi's versions disagree, and tables whose instants are not in UTC."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.spec.table_spec import TableSpec
from tests.interop.versions import MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import our_table
from tests.support.hudi_spark import HudiSpark, HudiTable
from tests.support.judges import HudiRs, RealHudi, assert_history
from tests.support.model import TableModel
from tests.support.rows import arrow_schema
from tests.support.soundness import unsound
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEW = ("c_int", "c_string", "c_price")
KEYS = {"id": pa.string(), "region": pa.string(), "kind": pa.string(), "version": pa.int64()}
SPEC = TableSpec(
    name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region", "kind")
)
LOS_ANGELES = "America/Los_Angeles"


def rows_of(ours, rnd, ids, version):
    return [{**row, "kind": f"kind {number % 2}"} for number, row in enumerate(ours.rows(rnd, ids, version))]


def followed(hudi, ours, rows, **settings):
    instant = hudi.write(ours.hudi(**settings), ours.arrow(rows))
    ours.model.upsert(instant, rows, compares_ordering=hudi.compares_ordering)


@MOSTLY_0_15_0
def test_one_key_and_two_partition_fields_made_by_us(spark, tmp_path, hudi, judges):
    rnd = random.Random(41)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW, keys=KEYS, spec=SPEC)
    ours.upsert(rows_of(ours, rnd, range(20), 1))
    followed(hudi, ours, rows_of(ours, rnd, range(10, 30), 2), keygen="CustomKeyGenerator")
    ours.upsert(rows_of(ours, rnd, range(5, 25), 3))
    assert unsound(ours.path, since="9") == []
    assert_history(judges, str(ours.path), ours.model)


@MOSTLY_1_2_0
@pytest.mark.parametrize("keygen", ["CustomKeyGenerator", "ComplexKeyGenerator"])
def test_one_key_and_two_partition_fields_made_by_real_hudi(spark, tmp_path, hudi, judges, keygen):
    rnd = random.Random(42)
    schema = arrow_schema(KEYS, FEW)
    model = TableModel(
        key=("id",), columns=tuple(schema.names), ordering="version", partition_by=("region", "kind")
    )
    ours = our_table.OurTable(
        spark=spark, path=tmp_path / "theirs", schema=schema, model=model, name="theirs"
    )
    rows = rows_of(ours, rnd, range(20), 1)
    table = ours.hudi(keygen=keygen)
    if keygen == "ComplexKeyGenerator" and hudi.compares_ordering:
        table = replace(table, options={"hoodie.write.complex.keygen.validation.enable": "false"})
        model.prefixed_single_key = True
    model.insert(hudi.write(table, ours.arrow(rows), "insert", mode="overwrite"), rows)
    ours.upsert(rows_of(ours, rnd, range(10, 30), 2))
    rows = rows_of(ours, rnd, range(5, 25), 3)
    model.upsert(hudi.write(table, ours.arrow(rows)), rows)
    assert_history([HudiRs(), RealHudi(hudi)], str(ours.path), model)


@pytest.fixture
def los_angeles(monkeypatch):
    """Our own process lives in Los Angeles."""
    monkeypatch.setenv("TZ", LOS_ANGELES)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("version", ["0.15.0", pytest.param("1.2.0", marks=pytest.mark.long)])
def test_tables_in_los_angeles(spark, tmp_path, version, los_angeles):
    """The one that real Hudi made lives in its local time, ours in UTC; neither loses a row to the other."""
    rnd = random.Random(43)
    with HudiSpark(version, tmp_path / "hudi", zone=LOS_ANGELES) as hudi:
        schema = arrow_schema(our_table.KEYS, FEW)
        model = TableModel(
            key=("id",), columns=tuple(schema.names), ordering="version", partition_by=("region",)
        )
        local = our_table.OurTable(
            spark=spark, path=tmp_path / "theirs", schema=schema, model=model, name="theirs"
        )
        rows = local.rows(rnd, range(20), 1)
        model.insert(hudi.write(local.hudi(), local.arrow(rows), "insert", mode="overwrite"), rows)
        assert model.instants()[0][:10] == time.strftime("%Y%m%d%H"), "the table lives in local time"
        local.upsert(local.rows(rnd, range(10, 30), 2))
        followed(hudi, local, local.rows(rnd, range(5, 25), 3))
        local.upsert(local.rows(rnd, range(20, 40), 4))
        readers = [ViewReader(), RealHudi(hudi)]
        assert_history(readers, str(local.path), model)

        # The other way round Hudi's own clock would wait for hours: it never goes back within a process.
        ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
        ours.upsert(ours.rows(rnd, range(20), 1))
        followed(hudi, ours, ours.rows(rnd, range(10, 30), 2))
        ours.upsert(ours.rows(rnd, range(5, 25), 3))
        followed(hudi, ours, ours.rows(rnd, range(15, 35), 4))
        assert_history([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


def test_a_local_table_is_refused_from_a_zone_behind_it(spark, tmp_path, hudi_15, monkeypatch):
    rnd = random.Random(44)
    schema = arrow_schema(our_table.KEYS, FEW)
    table = HudiTable(
        path=str(tmp_path / "theirs"),
        name="theirs",
        key=("id",),
        ordering="version",
        partition_by=("region",),
    )
    model = TableModel(key=("id",), columns=tuple(schema.names), ordering="version", partition_by=("region",))
    local = our_table.OurTable(
        spark=spark, path=tmp_path / "theirs", schema=schema, model=model, name="theirs"
    )
    rows = local.rows(rnd, range(4), 1)
    model.insert(hudi_15.write(table, local.arrow(rows), "insert", mode="overwrite"), rows)
    monkeypatch.setenv("TZ", LOS_ANGELES)
    time.tzset()
    try:
        with pytest.raises(UnsupportedTableError, match=r"ahead of the clock .*LOCAL.*set TZ to the zone"):
            local.upsert(local.rows(rnd, range(4), 2))
    finally:
        monkeypatch.undo()
        time.tzset()
    local.upsert(local.rows(rnd, range(4), 2))
    assert_history([ViewReader(), RealHudi(hudi_15)], str(local.path), model)
