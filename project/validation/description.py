"""The parts of a key's description in a schema: its text, its default and its Hudi settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DESCRIPTION = re.compile(
    r"^(?P<text>.*?)(?: Default: (?P<default>.*?)\.)?"
    r"(?: Hudi: (?P<hudi>.*?)\.|(?P<no_hudi> Hudi has no such setting\.))?$",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The parts of a description; ``default`` and ``hudi`` are None if the description has no such part.

    ``hudi`` is empty if Hudi has no setting that corresponds to the key.
    """

    text: str
    default: str | None
    hudi: str | None


def described(schema: Mapping[str, Any]) -> Description:
    """Split the description of a key's schema into its parts."""
    parts = _DESCRIPTION.match(schema["description"])
    assert parts is not None, "every description matches"
    hudi = "" if parts["no_hudi"] else parts["hudi"]
    return Description(text=parts["text"], default=parts["default"], hudi=hudi)
