"""The one place where templates are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2

from parquetry.printable import visible


def environment(*, page: bool = False, **filters: Callable[..., str]) -> jinja2.Environment:
    """The templates of the package, with these filters beside Jinja's own.

    What goes into a page is escaped for HTML; what goes into Python is not, and passes a filter. On a
    ``page`` characters that nobody sees are shown as escapes.
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
