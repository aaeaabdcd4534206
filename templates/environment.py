"""The one function that loads templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2

from parquetry.text.printable import visible


def environment(*, page: bool = False, **filters: Callable[..., str]) -> jinja2.Environment:
    """Return the Jinja environment of the package's templates, with additional filters.

    Values in HTML are escaped. Values in Python are not; templates pass them through a filter. With ``page``,
    invisible characters are shown as escapes.
    """
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("parquetry.templates", ""),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    if page:
        made.finalize = _seen
    return made


def _seen(value: Any) -> Any:
    return visible(value) if type(value) is str else value
