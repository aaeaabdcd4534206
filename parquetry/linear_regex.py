"""Regular expressions of specs, matched in time linear in the text: by RE2, which Arrow brings along.

Python's own engine tries one way after the other: ``(a+)+$``, or a path with twelve ``**/``, takes hours on a
name that somebody else chose. RE2 follows all ways at once, and refuses a pattern that takes too much memory.
It has no back references and does not look ahead or behind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

_PREFIX = "Invalid regular expression: "


class RegexError(ValueError):
    """What is wrong with a regular expression, as a clause."""


class LinearRegex:
    """A regular expression in RE2's syntax, which has to match whole texts.

    Raises:
        RegexError: it is none, or it is too large.

    """

    def __init__(self, pattern: str) -> None:
        # Alone first: `a)|(b` is one only within brackets.
        _matches(pattern, [""])
        self._pattern = rf"\A(?:{pattern})\z"

    def matching(self, texts: Collection[str]) -> frozenset[str]:
        """Those of the texts that it matches from end to end."""
        listed = list(texts)
        found = zip(listed, _matches(self._pattern, listed), strict=True)
        return frozenset(text for text, is_match in found if is_match)


def _matches(pattern: str, texts: Sequence[str]) -> Sequence[bool]:
    import pyarrow as pa  # noqa: PLC0415 - only projects with patterns wait for it
    import pyarrow.compute as pc  # noqa: PLC0415

    # A name that is no UTF-8 has half characters in it: each is one character that no pattern names.
    whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    try:
        found = pc.match_substring_regex(pa.array(whole, pa.string()), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise RegexError(str(error).removeprefix(_PREFIX)) from error
    matches: list[bool] = found.to_pylist()
    return matches
