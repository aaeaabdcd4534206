"""Workflow commands: lines in the log of a GitHub workflow that become annotations of a pull request.

Source: ``command.ts`` of the package ``@actions/core``.
"""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.text.printable import visible


def workflow_command(kind: str, properties: Mapping[str, object], message: str) -> str:
    """Return the escaped line without its end; ``kind`` is ``error``, ``warning`` or ``notice``."""
    parameters = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{kind} {parameters}::{_data(message)}"


def _data(text: str) -> str:
    text = visible(text).replace("##[", r"#\x23[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
