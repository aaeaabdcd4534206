"""The target's settings for spark-submit, divided into its command line and the job's own settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from parquetry.errors import UsageError
from parquetry.project.model.resolved import SparkLaunchSettings
from parquetry.project.validation.interpolate import Secret
from parquetry.runtime.redaction import secret_options

_PY_FILES = "--py-files"
_CONF = ("--conf", "-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitArguments:
    """The arguments of spark-submit: ``words`` without secrets, ``files`` to ship, ``hidden`` settings."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    hidden: Mapping[str, str | Secret]


def submit_arguments(spark: SparkLaunchSettings) -> SubmitArguments:
    """Return the arguments from ``spark.conf`` and ``submit_args``.

    All ``--py-files`` are collected in ``files``, because spark-submit uses only the last such option.

    Raises:
        UsageError: If a secret is used elsewhere than as the value of a setting.
    """
    words: list[str] = []
    files: list[str] = []
    hidden: dict[str, str | Secret] = {}

    def add_setting(key: str, value: str | Secret) -> None:
        """Add a setting: to the hidden ones if it contains a secret, else to the command line."""
        if isinstance(value, Secret) or secret_options({key: value}):
            hidden[key] = value
        else:
            hidden.pop(key, None)
            words.append(f"--conf={key}={value}")

    for key, value in spark.conf.items():
        add_setting(key, value)
    for option, argument in _options(spark.submit_args):
        if option in _CONF:
            add_setting(*_split(argument))
        elif isinstance(argument, Secret):
            raise _exposed_secret_error(argument)
        elif option == _PY_FILES:
            files += [file for file in argument.split(",") if file]
        else:
            words.append(argument)
    return SubmitArguments(words=tuple(words), files=tuple(files), hidden=hidden)


def _options(arguments: Sequence[str | Secret]) -> Iterator[tuple[str, str | Secret]]:
    """Yield the values of ``--conf`` and ``--py-files`` with their option, other words with an empty one."""
    words = iter(arguments)
    for word in words:
        option, equals, _ = str(word).partition("=")
        if option not in (*_CONF, _PY_FILES):
            yield "", word
        else:
            yield option, _split(word)[1] if equals else next(words, "")


def _split(word: str | Secret) -> tuple[str, str | Secret]:
    """Return the parts before and after the first ``=``; the part before it must not contain a secret."""
    name, _, rest = str(word).partition("=")
    if not isinstance(word, Secret):
        return name, rest
    template, text = word.template.partition("="), word.reveal().partition("=")
    if not name == template[0] == text[0]:
        raise _exposed_secret_error(word)
    return name, Secret(masked=rest, template=template[2], names=word.names, _text=text[2])


def _exposed_secret_error(word: Secret) -> UsageError:
    """Return the error for a secret in ``submit_args`` that would be on the command line."""
    return UsageError(
        f"submit_args: {word} would be on the command line of spark-submit, which every user of the machine "
        "can read; set it under spark.conf, which the job reads itself, or in a file that the argument names"
    )
