"""Sizes and row counts as values of options."""

from __future__ import annotations

import click


def size(value: str) -> int:
    """Bytes of a text such as ``120MiB`` or ``1000B``; a bare number other than 0 is an error."""
    from parquetry.project.schema.units import size_bytes

    try:
        return size_bytes(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is no size: write a number with a unit, such as 120MiB or 1000B"
        ) from error


def sizes(value: str) -> tuple[int, ...]:
    """Sizes separated by commas, in their order; none for an empty text."""
    return tuple(size(part.strip()) for part in value.split(",") if part.strip())


def rows(value: str) -> int | None:
    """A number of rows above 0; ``auto`` is None."""
    if value == "auto":
        return None
    text = value.replace("_", "")
    if not text.isdecimal() or int(text) == 0:
        raise click.BadParameter(f"{value!r} is no number of rows above 0, nor auto")
    return int(text)
