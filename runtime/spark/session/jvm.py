"""Starts a JVM for Spark without a setting on the command line and with listed environment variables only.

PySpark passes settings as arguments, which every user of the machine can read in ``/proc``. This module
passes them in a properties file that only this user can read. On Linux the file is in memory and disappears
with this process, however it ends; elsewhere it is a temporary file. Java reads it only while it starts.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from parquetry.runtime.spark_environment import spark_environment
from parquetry.runtime.spark_log import LogRules, log_pipe

_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_SHELL: Final = "pyspark-shell"
_FILE: Final = "--properties-file"
_LOCAL_FOLDER: Final = "spark.local.dir"


class _StartArguments(dict[str, Any]):
    """The arguments of Popen.

    Its ``env`` gets only the listed variables of the environment that PySpark sets.
    """

    def __init__(self, names: Iterable[str], variables: Mapping[str, str], **arguments: Any) -> None:
        super().__init__(arguments)
        self._names, self._variables = frozenset(names), variables

    def __setitem__(self, key: str, value: Any) -> None:
        chosen = {**self._variables, **spark_environment(self._names, value)} if key == "env" else value
        super().__setitem__(key, chosen)


def start_jvm(
    options: Mapping[str, str],
    *,
    local_folder: str,
    environment: Iterable[str],
    log: Path | None,
    rules: LogRules,
) -> Any:
    """Start a JVM and return its gateway.

    Args:
        options: The settings, which override those of ``spark-defaults.conf``.
        local_folder: The folder for shuffled and spilled rows, unless the settings or the environment name
            one.
        environment: The names of the variables to pass, in addition to those that are always needed.
        log: The file for the JVM's output; None to filter only its stderr.
        rules: The rules that decide which output is written.

    """
    given = os.environ.get(_ARGUMENTS)
    arguments, defaults = _without_file(shlex.split(given or _SHELL))
    content = _read(defaults or _defaults()) + b"\n\n" + _properties(options)
    is_named = any(_LOCAL_FOLDER in text for text in (content.decode(errors="replace"), *arguments))
    variables = {} if is_named else {"SPARK_LOCAL_DIRS": local_folder}
    with _properties_file(content) as file, log_pipe(log, rules) as pipe:
        os.environ[_ARGUMENTS] = shlex.join([_FILE, file, *arguments])
        try:
            streams = {"stderr": pipe.end} | ({} if log is None else {"stdout": pipe.end})
            return launch_gateway(popen_kwargs=_StartArguments(environment, variables, **streams))
        finally:
            if given is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = given


@contextmanager
def _properties_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with the content. Processes of this user can read it within the block."""
    with ExitStack() as stack:
        file = _memory_file(stack) or _temporary_file(stack)
        file.write(content)
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}" if isinstance(file.name, int) else file.name


def _memory_file(stack: ExitStack) -> BinaryIO | None:
    """Open a file in memory.

    The result is None if the system has no such files, or if other processes cannot open them.
    """
    try:
        descriptor = os.memfd_create("spark.properties")
    except (AttributeError, OSError):
        return None
    file = stack.enter_context(open(descriptor, "wb"))  # noqa: PTH123, SIM115 - it has no path
    return file if os.access(f"/proc/{os.getpid()}/fd/{descriptor}", os.R_OK) else None


def _temporary_file(stack: ExitStack) -> BinaryIO:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parquetry-"))
    path = os.path.join(folder, "spark.properties")  # noqa: PTH118
    return stack.enter_context(open(path, "xb", opener=lambda p, flags: os.open(p, flags, 0o600)))


def _without_file(arguments: list[str]) -> tuple[list[str], Path | None]:
    """Return the user's arguments without the option for a properties file, and the name of that file.

    The name is None without the option. Spark accepts only one properties file.
    """
    kept: list[str] = []
    file = None
    words = iter(arguments)
    for word in words:
        if word == _FILE:
            file = Path(next(words, ""))
        elif word.startswith(f"{_FILE}="):
            file = Path(word.partition("=")[2])
        else:
            kept.append(word)
    return kept, file


def _defaults() -> Path:
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")  # noqa: PTH118
    return Path(folder) / "spark-defaults.conf"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _properties(options: Mapping[str, str]) -> bytes:
    """Return the settings in the format of a Java properties file."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in options.items()).encode()


def _escaped(text: str) -> str:
    return "".join(
        character
        if character.isascii() and (character.isalnum() or character in "._-/")
        else _utf16_escape(character)
        for character in text
    )


def _utf16_escape(character: str) -> str:
    """Return the character as UTF-16 escapes, which have no special meaning in a properties file."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
