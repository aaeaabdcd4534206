"""Regular expressions of specs, matched by RE2, which is part of Arrow, in time linear in the text.

Python's engine tries one alternative after the other: ``(a+)+$``, or a path with twelve ``**/``, takes hours
on a name that an untrusted user chose. RE2 follows all alternatives at once, and refuses a pattern that takes
too much memory. It has no back references, look-ahead or look-behind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_PREFIX = "Invalid regular expression: "


class RegexError(ValueError):
    """A clause that describes the error in a regular expression."""


class LinearRegex:
    """A regular expression in RE2's syntax, which has to match whole texts.

    Raises:
        RegexError: The pattern is not a regular expression, or it is too large.

    """

    def __init__(self, pattern: str) -> None:
        # Compile the pattern alone first: `a)|(b` is valid only within brackets.
        _matches(pattern, [""])
        self._pattern = rf"\A(?:{pattern})\z"

    def matching(self, texts: Collection[str]) -> frozenset[str]:
        """Return the texts that the expression matches from beginning to end."""
        listed = list(texts)
        found = zip(listed, _matches(self._pattern, listed), strict=True)
        return frozenset(text for text, is_match in found if is_match)


def _matches(pattern: str, texts: Sequence[str]) -> Sequence[bool]:
    import pyarrow as pa  # noqa: PLC0415 - only projects with patterns wait for it
    import pyarrow.compute as pc  # noqa: PLC0415

    # A name that is not UTF-8 has surrogates in it. Each becomes one character that no pattern contains.
    whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    try:
        found = pc.match_substring_regex(pa.array(whole, pa.string()), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise RegexError(str(error).removeprefix(_PREFIX)) from error
    matches: list[bool] = found.to_pylist()
    return matches
