"""Tables of many small files, with a clustering section in their applied spec."""

from __future__ import annotations

import copy
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Extra, RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support import our_table
from tests.support.our_table import OurTable

MIB = 1024 * 1024
FEW = ("c_int", "c_string", "c_double")
_folder = tempfile.TemporaryDirectory(prefix="small-files-")
_templates: dict[str, OurTable] = {}


def clustering_of(*columns: str, strategy: str = "sort", **plan: Any) -> ClusteringSpec:
    """A clustering section: 1 MiB files, laid out by these columns; without any, stitched."""
    settings = {"small_file_limit_bytes": 900_000, "target_file_size_bytes": MIB} | plan
    execution = ExecutionPolicy(strategy=strategy, columns=columns) if columns else ExecutionPolicy()
    return ClusteringSpec(plan=PlanPolicy(**settings), execution=execution)


def spec_of(clustering: ClusteringSpec, **settings: Any) -> TableSpec:
    """The spec of :func:`tests.support.our_table.create` with that section; inserts fill no small file."""
    return TableSpec(
        **{
            "name": "ours",
            "columns": (),
            "record_key": ("id",),
            "ordering": "version",
            "partition_by": ("region",),
            "sizing": SizingPolicy(max_file_size_bytes=MIB, small_file_limit_bytes=0),
            "retention": RetentionPolicy(keep_commits=100, archive_keep_commits=200),
            "extra": Extra(clustering=clustering),
            **settings,
        }
    )


def table_of_small_files(
    spark: Any,
    path: Path,
    clustering: ClusteringSpec,
    *,
    inserts: int = 3,
    rows: int = 40,
    typed: Sequence[str] = FEW,
    **settings: Any,
) -> OurTable:
    """Four partitions with a small file of every insert, after an update in some of them.

    It is written once for each choice of settings; the next tests get copies with the same files and instants.
    """
    wanted = repr((clustering, inserts, rows, tuple(typed), settings))
    template = _templates.get(wanted)
    if template is None:
        place = Path(_folder.name, str(len(_templates)))
        template = our_table.create(spark, place, typed=list(typed), spec=spec_of(clustering, **settings))
        rnd = random.Random(5)
        for number in range(inserts):
            template.insert(template.rows(rnd, range(number * rows, (number + 1) * rows), 1))
        template.upsert(template.rows(rnd, range(0, rows, 7), 2))
        _templates[wanted] = template
    shutil.copytree(template.path, path)
    return replace(template, spark=spark, path=path, model=copy.deepcopy(template.model))


def files_of(ours: OurTable) -> dict[str, int]:
    """The number of current files by partition."""
    handle = open_table(open_store(str(ours.path)))
    view = handle.view(handle.timeline())
    return {partition: len(view.slices(partition)) for partition in view.partitions()}
