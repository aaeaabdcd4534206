"""What is written down about a bug: where it happened and among which versions, and no secret."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from parquetry import shell
from parquetry.runtime.redaction import without_secrets
from parquetry.secret_names import MASK
from parquetry.version import VERSION

_LONGEST_LINE = 5_000
_PACKAGES = (
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "fastavro",
    "fsspec",
    "s3fs",
    "gcsfs",
    "click",
    "pyyaml",
)
# Folders of partitions, which may be personal, in the paths of files; a blank before a slash begins a path.
_IN_PATH = re.compile(
    r"(?<![\w.])([\w.]+)=[^/\n'\"]{0,1024}"
    r"(?=/(?:[^/\n]*[^/\s]/)*[^/\n]*\.(?:parquet|hoodie_partition_metadata))"
)


def write_report(bug: BaseException, *, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The path of a new file, readable by this user alone, with command, versions and traceback."""
    text = "\n".join([*_head(arguments), "", "".join(traceback.format_exception(bug))])
    content = masked(text, environment).encode("utf-8", errors="backslashreplace")
    with tempfile.NamedTemporaryFile(prefix="parquetry-", suffix=".traceback", delete=False) as report:
        report.write(content)
    return report.name


def masked(text: str, environment: Mapping[str, str]) -> str:
    """The text with ``***`` for secrets and for partitions of files."""
    lines = without_secrets(text, environment).split("\n")
    cut = (line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..." for line in lines)
    return "\n".join(_IN_PATH.sub(rf"\1={MASK}", line) for line in cut)


def _head(arguments: Sequence[str]) -> Iterator[str]:
    yield f"command: {shell.line('parquetry', *_masked_variables(arguments))}"
    yield f"parquetry {VERSION}, Python {platform.python_version()}, {platform.platform()}"
    yield ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _masked_variables(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments; what is given for variables of the project may be anything."""
    previous = ""
    for argument in arguments:
        if previous == "--var" or argument.startswith("--var="):
            name = argument.removeprefix("--var=").partition("=")[0]
            yield f"--var={name}={MASK}" if argument.startswith("--var=") else f"{name}={MASK}"
        else:
            yield argument
        previous = argument


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def report_bug(bug: BaseException) -> str:
    """What the user is told: what kind of bug, and where its report is."""
    path = write_report(bug, arguments=sys.argv[1:], environment=os.environ)
    first = masked((str(bug) or "no message").splitlines()[0], os.environ)
    return (
        f"a bug of parquetry ({type(bug).__name__}: {first}); please report it with the versions and the "
        f"traceback in {path}"
    )
