"""Texts in GitHub's Markdown, where texts of others cannot become markup.

A text of a branch or a table must not show an image, link anywhere, mention a user, refer to an issue or end
the block that contains it. GitHub leaves code alone, so text that could do that is shown as code.
"""

from __future__ import annotations

import html
import re
from typing import Final

from parquetry.text.printable import one_line, visible, without_commands

_LEAST_FENCE: Final = 3
_SPAN: Final = re.compile(r"`([^`]+)`|[^\s`]+|`+")
_MARK: Final = re.compile(r"[\\`*{}\[\]<>|~&@#$!^]|(?<![^\W_])_|_(?![^\W_])")
"""A character with a meaning in Markdown or HTML; an underscore within a word has none."""
_LEADS: Final = re.compile(r"://|www\.|mailto:|xmpp:|\bGH-\d|:[\w+-]+:|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
"""Text that GitHub turns into a link or a picture: addresses, issues, emoji, commits."""
_RISKY: Final = re.compile(r"[`|\\<>&@]|!\[|\][(\[:]|#\d|://|www\.|\bapproved\b", re.IGNORECASE)
_ENDS: Final = ".,;"
_BEGINS_BLOCK: Final = re.compile(r"[-+=]+|\d+[.)]")
_ARROW: Final = "->"


def code(text: str) -> str:
    """Return the text as code on one line, also for a cell of a table.

    Text that would be markup without the backticks becomes an HTML element instead, as backticks alone do not
    protect it.
    """
    text = without_commands(one_line(text))
    if not text:
        return ""
    return code_html(text) if _RISKY.search(text) else f"`{text}`"


def code_html(text: str) -> str:
    """Return the text on one line as a code element, with characters that could be markup as entities."""
    signs = (sign if sign.isalnum() or sign in " -,/=" else f"&#{ord(sign)};" for sign in one_line(text))
    return f"<code>{''.join(signs)}</code>"


def inline(text: str) -> str:
    """Return prose that may contain texts of others on one line; words between backticks become code."""
    return _SPAN.sub(_word, one_line(text))


def fenced(text: str, language: str) -> str:
    """Return a block of code that no text in it can end."""
    text = without_commands(visible(text))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n"


def _word(found: re.Match[str]) -> str:
    word, text = found[0], found.string
    if word == _ARROW:
        return html.escape(word)
    begins_block = found.start() == 0 and _BEGINS_BLOCK.fullmatch(word)
    if found[1] is None and not (_MARK.search(word) or _LEADS.search(word) or begins_block):
        return word
    beside = text[max(found.start() - 1, 0) : found.start()] + text[found.end() : found.end() + 1]
    as_code = code_html if "`" in beside else code
    if found[1] is not None:
        return as_code(found[1])
    body = word.rstrip(_ENDS)
    return f"{as_code(body)}{word[len(body) :]}"
