"""Our own writer and reader on whatever Spark this interpreter has: `python spark_smoke.py FOLDER`.

Run by `test_other_sparks` in environments that have that Spark and nothing of the tests' own tools.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyspark

from parquetry.runtime.spec.clustering import ClusteringScope
from parquetry.runtime.spec.table_spec import KeyScope, TableSpec
from tests.support import our_table
from tests.support.clustering import clustering_of, table_of_small_files
from tests.support.effort import in_full
from tests.support.functions_of_spark import unlisted_functions
from tests.support.judges import assert_history
from tests.support.local_spark import local_spark
from tests.support.soundness import unsound
from tests.support.view_reader import ViewReader

FEW = ("c_int", "c_float", "c_string", "c_price", "c_struct")
SPEC = TableSpec(name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",))


def every_operation(spark, folder):
    rnd = random.Random(81)
    ours = our_table.create(spark, folder)
    ours.upsert(ours.rows(rnd, range(40), 1))
    ours.upsert([*ours.rows(rnd, range(20, 60), 2), *ours.rows(rnd, range(5), 0)])
    ours.insert(ours.rows(rnd, range(60, 70), 3))
    ours.bulk_insert(ours.rows(rnd, range(70, 80), 3))
    ours.delete(ours.rows(rnd, range(8, 16), 1))
    ours.delete(ours.rows(rnd, range(18, 24), 1), with_ordering=True)
    ours.insert_overwrite(ours.rows(rnd, range(0, 12, 4), 5))
    ours.upsert(ours.rows(rnd, range(30), 6))
    return ours


def a_key_that_moves(spark, folder):
    rnd = random.Random(82)
    ours = our_table.create(spark, folder, typed=FEW, spec=replace(SPEC, key_scope=KeyScope.TABLE))
    ours.upsert(ours.rows(rnd, range(20), 2))
    ours.upsert(ours.rows(rnd, range(6), 3, region="moved") + ours.rows(rnd, range(6, 9), 1, region="late"))
    return ours


def widened_columns(spark, folder):
    """Files of three schemas: int and float columns that become bigint and double, a column that comes later."""
    rnd = random.Random(83)
    ours = our_table.create(spark, folder, typed=FEW)
    ours.upsert(ours.rows(rnd, range(20), 1))
    wider = {"c_int": pa.int64(), "c_float": pa.float64()}
    ours.evolve(
        pa.schema([f.with_type(wider.get(f.name, f.type)) for f in ours.schema]).append(
            pa.field("c_new", pa.string())
        )
    )
    ours.insert(ours.rows(rnd, range(20, 30), 2, c_int=2**40, c_float=0.1, c_new="x"))
    ours.upsert(ours.rows(rnd, range(0, 30, 8), 3, c_int=-(2**40), c_float=1e300, c_new="ü"))
    return ours


def partitions_in_one_order(spark, folder):
    """Each partition clustered by two tasks of a shuffle, then written to again."""
    section = clustering_of("c_int", "c_string", target_file_size_bytes=1000, small_file_limit_bytes=900)
    section = replace(section, execution=replace(section.execution, scope=ClusteringScope.PARTITION))
    ours = table_of_small_files(spark, folder, section, inserts=4, rows=24)
    clustered = ours.table.cluster(spark)
    assert clustered.files_before == 16, clustered
    ours.model.unchanged(*clustered.instants)
    ours.upsert(ours.rows(random.Random(84), range(0, 90, 7), 5))
    return ours


def main() -> None:
    """Everything, then one line that says on which Spark."""
    folder = Path(sys.argv[1])
    spark = local_spark("smoke")
    assert unlisted_functions(spark) == set()
    readers = [ViewReader(), our_table.OurReader(spark)]
    for scenario in (every_operation, a_key_that_moves, widened_columns, partitions_in_one_order):
        ours = scenario(spark, folder / scenario.__name__)
        assert unsound(ours.path) == []
        # The short suites ask at every instant on the newest Spark alone.
        assert_history(readers, str(ours.path), ours.model, thorough=in_full())
        print(scenario.__name__, len(ours.model.versions), "commits", ours.model.latest().total(), "rows")
    spark.stop()
    print("sound on Spark", pyspark.__version__)


if __name__ == "__main__":
    main()
