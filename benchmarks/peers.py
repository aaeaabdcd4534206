"""The peers of a run: started as processes of their own, with the same codec, limits and memory."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import environment as formats
from benchmarks.peer import Peer
from parquetry.runtime.base_file.encoding import ZSTD_LEVEL
from tests.interop import environment

HUDI, OLD_HUDI = "1.2.0", "0.15.0"
VERSIONS = {
    "parquetry": "this clone",
    "plain": "the Spark that pip resolves to",
    "arrow": "pyarrow, no table format: the floor of clustering",
    "hudi": f"Hudi {HUDI}, table version 6, Spark 3.5",
    "delta": f"Delta Lake {formats.DELTA.version}, Spark {formats.DELTA.spark}",
    "iceberg": f"Iceberg {formats.ICEBERG.version}, Spark {formats.ICEBERG.spark}",
    "delta-rs": f"delta-rs ({formats.DELTA_RS[0]})",
}
CLUSTERS = {
    "parquetry-cluster": "this clone, standalone cluster of two workers",
    "hudi-cluster": f"Hudi {HUDI}, table version 6, Spark 3.5, standalone cluster of two workers",
    "hudi-0.15-cluster": f"Hudi {OLD_HUDI}, Spark 3.5, standalone cluster of two workers",
}
"""Peers that have a Spark cluster of their own; the workload that compares them starts them."""


def start(name: str, folder: Path, settings: Mapping[str, str]) -> Peer:
    """Start a peer of ``VERSIONS`` or ``CLUSTERS``; its log lies in ``folder``."""
    here, log = Path(sys.executable), folder / f"{name}.log"
    if name in CLUSTERS:
        settings = {**settings, "cluster": str(folder / f"{name}-processes")}
    match name.removesuffix("-cluster"):
        case "parquetry":
            return Peer(name, "ours.py", here, log, settings)
        case "plain":
            return Peer(name, "plain.py", here, log, settings)
        case "hudi" | "hudi-0.15" as hudi:
            jar = str(environment.hudi_bundle(HUDI if hudi == "hudi" else OLD_HUDI))
            return Peer(name, "hudi.py", environment.spark_python("3.5"), log, {**settings, "jar": jar})
        case "delta" | "iceberg":
            package = formats.DELTA if name == "delta" else formats.ICEBERG
            jars = ",".join(str(jar) for jar in formats.jars(package))
            more = {"jars": jars, "format": name, "warehouse": str(folder / "iceberg")}
            return Peer(
                name, "lakehouse.py", environment.spark_python(package.spark), log, {**settings, **more}
            )
        case "arrow":
            return Peer(name, "arrow.py", here, log, settings)
        case "delta-rs":
            return Peer(name, "delta_rs.py", formats.delta_rs_python(), log, settings)
    raise ValueError(f"{name} is no peer; there are {', '.join(VERSIONS)}")


def machine(scale: float, reps: int, names: Iterable[str], **more: Any) -> dict[str, Any]:
    """What a result depends on besides the code; the load says how busy the machine was when it began."""
    return {
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "load": round(os.getloadavg()[0], 1),
        "scale": scale,
        "reps": reps,
        "zstd_level": ZSTD_LEVEL,
        "peers": {name: {**VERSIONS, **CLUSTERS}[name] for name in names},
        **more,
    }
