"""An encrypted table on whatever Spark this interpreter has: `python spark_encrypted.py FOLDER`.

Its key comes from a client that a package with an entry point brings, here a folder on the path: what the
built-in clients need besides pyarrow is not installed in these environments.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pyspark
from pyspark.errors import PythonException

from parquetry.runtime.spec.table_spec import FilesPolicy
from tests.support import our_table
from tests.support.clustering import clustering_of, files_of, table_of_small_files
from tests.support.judges import assert_history
from tests.support.local_spark import local_spark

FILES = FilesPolicy(encryption_key="drawer:table", compression="uncompressed")
SECRET = "confidential"


def sealed_files(path: Path) -> set[bool]:
    """Whether base files are encrypted; none holds the word that all rows have."""
    files = [file for file in path.rglob("*.parquet") if ".hoodie" not in file.parts]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    return {file.read_bytes().endswith(b"PARE") for file in files}


def main() -> None:
    """Writes, clustering and reads with the key, then a read without."""
    folder = Path(sys.argv[1])
    spark = local_spark("encrypted", {"spark.io.encryption.enabled": "true"})
    rnd = random.Random(91)
    section = clustering_of("c_int", "version")
    ours = table_of_small_files(spark, folder / "sealed", section, inserts=2, files=FILES)
    ours.upsert(ours.rows(rnd, range(0, 140, 9), 3, c_string=SECRET))
    clustered = ours.table.cluster(spark)
    assert set(files_of(ours).values()) == {1}, clustered
    ours.model.unchanged(*clustered.instants)
    ours.upsert(ours.rows(rnd, range(100, 160, 7), 4, c_string=SECRET))
    assert sealed_files(ours.path) == {True}
    assert_history([our_table.OurReader(spark, ours.keys)], str(ours.path), ours.model)
    print(len(ours.model.versions), "commits", ours.model.latest().total(), "rows")

    # Workers are started anew for another environment; those there are keep keys for ten minutes.
    spark.sparkContext.environment["DRAWER"] = os.environ["DRAWER"] + "/nowhere"
    try:
        ours.read()
    except PythonException as error:
        print("without the key:", re.findall(r"TaskFailureError: (.*)", str(error)))
    spark.stop()
    print("sealed on Spark", pyspark.__version__)


if __name__ == "__main__":
    main()
