"""jsonschema validators, which describe errors. Valid files do not need them, so they are imported late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from parquetry.project.validation.definitions import Kind, compiled_pattern, inlined


def _unique_items(_: Validator, unique: object, instance: Any, __: Any) -> Iterator[ValidationError]:
    """Check ``uniqueItems`` in linear time, also for lists of mixed types."""
    if unique and isinstance(instance, list):
        texts = {json.dumps(entry, sort_keys=True) for entry in instance}
        if len(texts) < len(instance):
            yield ValidationError("an entry occurs twice")


def _pattern(_: Validator, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not compiled_pattern(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _is_whole(_: object, instance: object) -> bool:
    """Return whether a number is an integer in the file: ``1e3`` would be recorded as 1000.0."""
    return isinstance(instance, int) and not isinstance(instance, bool)


_extend: Callable[..., type[Validator]] = extend
_FastValidator = _extend(
    Draft202012Validator,
    {"uniqueItems": _unique_items, "pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole),
)


@cache
def validator(kind: Kind) -> Validator:
    """Return a validator on a schema without references, which makes it fast."""
    return _FastValidator(inlined(kind))
