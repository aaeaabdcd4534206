"""Secrets in options: revealed for opening a store, and replaced by references in written documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from parquetry.errors import UsageError
from parquetry.project.validation.interpolate import Secret
from parquetry.runtime.redaction import treat_as_secret

_ENV_VAR = re.compile(r"""\{\{\s*env_var\(\s*(["'])(?P<name>\w+)\1\s*\)\s*\}\}""")


def revealed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with secrets as plain text, which must never be written to a file."""

    def reveal(secret: Secret) -> str:
        treat_as_secret(secret.names)
        return secret.reveal()

    return {key: _replace(value, reveal) for key, value in options.items()}


def references(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with ``{"environment_text": "${NAME}"}`` instead of each secret.

    Raises:
        UsageError: If the template of a secret contains more than names of variables.
    """
    return {key: _replace(value, reference) for key, value in options.items()}


def templates(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the template of each secret, so that equal declarations compare as equal."""
    return {
        key: _replace(value, lambda secret: {"template": secret.template}) for key, value in options.items()
    }


def reference(secret: Secret) -> dict[str, str]:
    """Return the reference that is written instead of a secret.

    Raises:
        UsageError: If the template of the secret contains more than names of variables.
    """
    text = _ENV_VAR.sub(lambda found: "${" + found["name"] + "}", secret.template)
    if "{{" in text or "{%" in text:
        names = ", ".join(secret.names)
        raise UsageError(
            "{variables}: the value is a secret, to which a job refers by its variable alone; write {{{{ "
            "env_var('NAME') }}}} without a default, filters or other templates, or, if the value is not "
            "secret, declare it in parquetry.yml: environment: [{variables}]",
            variables=names,
        )
    return {"environment_text": text}


def _replace(value: Any, what: Callable[[Secret], Any]) -> Any:
    match value:
        case Secret():
            return what(value)
        case Mapping():
            return {key: _replace(item, what) for key, item in value.items()}
        case list() | tuple():
            return [_replace(item, what) for item in value]
        case _:
            return value
