"""Bug reports: the command, the versions and the traceback, without secrets."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from parquetry.message import Message
from parquetry.runtime.redaction import without_secrets
from parquetry.text import shell
from parquetry.text.secret_names import MASK
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
# Folders of partitions, which may be personal, in paths of files. A blank before a slash begins a new path.
_IN_PATH = re.compile(
    r"(?<![\w.])([\w.]+)=[^/\n'\"]{0,1024}"
    r"(?=/(?:[^/\n]*[^/\s]/)*[^/\n]*\.(?:parquet|hoodie_partition_metadata))"
)


def write_report(bug: BaseException, *, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Write command, versions and traceback to a new file that only this user can read; return its path."""
    text = "\n".join([*_head(arguments), "", "".join(traceback.format_exception(bug))])
    content = masked(text, environment).encode("utf-8", errors="backslashreplace")
    with tempfile.NamedTemporaryFile(prefix="parquetry-", suffix=".traceback", delete=False) as report:
        report.write(content)
    return report.name


def masked(text: str, environment: Mapping[str, str]) -> str:
    """Return the text with ``***`` in place of secrets and of partition values in file paths."""
    lines = without_secrets(text, environment).split("\n")
    cut = (line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..." for line in lines)
    return "\n".join(_IN_PATH.sub(rf"\1={MASK}", line) for line in cut)


def _head(arguments: Sequence[str]) -> Iterator[str]:
    yield f"command: {shell.line('parquetry', *_masked_variables(arguments))}"
    yield f"parquetry {VERSION}, Python {platform.python_version()}, {platform.platform()}"
    yield ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _masked_variables(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with the values of --var masked, as they may be secrets."""
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


def report_bug(bug: BaseException) -> Message:
    """Write a report of the bug, and return a message with the kind of bug and the path of the report."""
    path = write_report(bug, arguments=sys.argv[1:], environment=os.environ)
    first = masked((str(bug) or "no message").splitlines()[0], os.environ)
    return Message(
        "a bug of parquetry ({error}: {reason}); please report it with the versions and the traceback in "
        "{file}",
        error=type(bug).__name__,
        reason=first,
        file=path,
    )
