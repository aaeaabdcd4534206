"""Secrets, and their removal from messages, logs and command lines.

Secrets are the values of environment variables and options with secret names, and the variables to which the
options of a job refer (``{"environment_text": "${NAME}"}``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from parquetry.runtime.errors import StorageError
from parquetry.runtime.spark_environment import key_variables
from parquetry.text.secret_names import MASK, SECRET_PREFIX, is_secret_name

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable in a text."""

_IN_URL: Final = re.compile(r"(?<=://)[^/\s:@]*:[^/\s]+(?=@)")
_NUMBER_OR_FLAG: Final = re.compile(r"\d{1,8}|true|false|none", re.IGNORECASE)
_SHORTEST: Final = 4
_SHORTEST_LINE: Final = 16
_NAMED_SECRETS: Final[set[str]] = set()


def treat_as_secret(names: Iterable[str]) -> None:
    """Treat the values of these variables as secrets from now on, because credentials were read from them."""
    _NAMED_SECRETS.update(names)


def option_value(value: str) -> str:
    """Return the value of an option; one of the form ``env:NAME`` is that of the variable, a secret.

    Raises:
        StorageError: If the variable is not set.
    """
    names = key_variables([value])
    if not names:
        return value
    treat_as_secret(names)
    found = os.environ.get(names[0])
    if found is None:
        raise StorageError("the environment variable {variable} is not set", variable=names[0])
    return found


def without_secrets(
    text: str, environment: Mapping[str, str] = os.environ, *, values: Collection[str] = ()
) -> str:
    """Return the text with ``***`` for secrets of the environment, ``values``, and passwords in URLs.

    Values of fewer than four characters are not replaced, as ordinary words may contain them.
    """
    hidden = (value for name, value in environment.items() if _is_hidden(name, value))
    secrets = {*hidden, *values}
    spelled = {spelling for value in secrets if len(value) >= _SHORTEST for spelling in _spellings(value)}
    for value in sorted(spelled, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _IN_URL.sub(MASK, text)


def _is_hidden(name: str, value: str) -> bool:
    """Return whether a variable is secret. Numbers and flags, such as MAX_TOKENS=4096, are not."""
    if name in _NAMED_SECRETS or name.startswith(SECRET_PREFIX):
        return True
    return is_secret_name(name) and _NUMBER_OR_FLAG.fullmatch(value) is None


def secrets_of(options: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the secret values in the options of a job: those that it contains or refers to."""
    return frozenset(_secrets(options, environment, is_named=False))


def secret_options(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the options that contain a secret or refer to one."""
    return frozenset(
        name
        for name, value in options.items()
        if is_secret_name(name) or _is_reference(value) or (isinstance(value, str) and _IN_URL.search(value))
    )


def _spellings(value: str) -> Iterator[str]:
    """Yield the value, its spellings in JSON and in URLs, and its lines, as logs contain them."""
    yield value
    yield json.dumps(value)[1:-1]
    yield quote(value, safe="")
    yield from (line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and "environment_text" in value


def _secrets(value: Any, environment: Mapping[str, str], *, is_named: bool) -> Iterator[str]:
    match value:
        case {"environment_text": str(text)} if len(value) == 1:
            yield from (environment[name] for name in VARIABLE.findall(text) if name in environment)
        case Mapping():
            for name, item in value.items():
                yield from _secrets(item, environment, is_named=is_named or is_secret_name(str(name)))
        case list() | tuple():
            for item in value:
                yield from _secrets(item, environment, is_named=is_named)
        case str() if is_named:
            yield value
