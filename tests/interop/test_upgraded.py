"""A table that real Hudi 1.2 upgraded is refused, and Hudi's own downgrade brings it back."""

from __future__ import annotations

import random
import re

import pytest

from parquetry.runtime.errors import UnsupportedTableError
from tests.support import our_table
from tests.support.hudi_spark import newest_write
from tests.support.judges import HudiRs, RealHudi, assert_history, assert_latest

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def test_an_upgraded_table_is_refused_until_hudi_has_downgraded_it(spark, tmp_path, hudi_12, judges):
    rnd = random.Random(21)
    ours = our_table.create(spark, tmp_path / "ours")
    ours.upsert(ours.rows(rnd, range(20), 1))
    ours.upsert(ours.rows(rnd, range(10, 30), 2))
    rows = ours.rows(rnd, range(25, 35), 3)
    ours.model.upsert(hudi_12.write(ours.hudi(), ours.arrow(rows), guarded=False), rows)
    assert_latest([HudiRs(), RealHudi(hudi_12, metadata_table=None)], str(ours.path), ours.model)

    before = sorted(ours.path.rglob("*"))
    with pytest.raises(UnsupportedTableError) as refused:
        ours.upsert(ours.rows(rnd, range(5), 4))
    assert newest_write(str(ours.path)) in str(refused.value)
    for told in ("table version 9", "CALL delete_metadata_table(", *hudi_12.guards()):
        assert told in str(refused.value)
    assert sorted(ours.path.rglob("*")) == before

    remedy = re.search(r"CALL downgrade_table\(table => '\w+', to_version => '(\w+)'\)", str(refused.value))
    hudi_12.call("downgrade_table", str(ours.path), to_version=remedy[1])
    with pytest.raises(UnsupportedTableError, match="metadata"):
        ours.upsert(ours.rows(rnd, range(5), 4))
    hudi_12.call("delete_metadata_table", str(ours.path))

    ours.upsert(ours.rows(rnd, range(5), 4))
    rows = ours.rows(rnd, range(30, 40), 5)
    ours.model.upsert(hudi_12.write(ours.hudi(), ours.arrow(rows)), rows)
    ours.upsert(ours.rows(rnd, range(38, 42), 6))
    assert_history(judges, str(ours.path), ours.model)
