"""What `fmt` writes means the same, keeps every comment, and stays as it is when formatted again."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from parquetry.project.diagnostics.source import SourceText
from parquetry.project.yaml.canonical import WIDTH, NotCanonicalError, canonical
from parquetry.project.yaml.document import parse_text
from tests.property.test_project_mutations import mutated_texts, without_deadline

PLAIN = ["a", "b c", "auto", "120MiB", "1", "1.5", "true", "null", "~", "x#y", "a: b", "- z", "é", "'", '"', "", " lead", "tail ", "#", "&a"]  # fmt: skip
KEYS = ["name", "k1", "long key", "on", "1", "a:b", "x#y"]
VALUES = st.recursive(
    st.sampled_from(PLAIN) | st.text(alphabet="ab \n'\"\\#:-", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=3)
    ),
    max_leaves=10,
)


class Writer:
    """Writes a value as YAML in one of many ways, with comments and blank lines strewn in."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.comments: list[str] = []

    def comment(self) -> str:
        self.comments.append(
            f"# {len(self.comments)} {self.draw(st.sampled_from(['', 'x: y', '- z', '#']))}".rstrip()
        )
        return self.comments[-1]

    def between(self, deepest: int) -> str:
        """Blank lines and comments at any indentation."""
        text = ""
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 2]))):
            blank = self.draw(st.booleans())
            text += "\n" if blank else " " * self.draw(st.integers(0, deepest)) + self.comment() + "\n"
        return text

    def end(self) -> str:
        return f" {self.comment()}\n" if self.draw(st.integers(0, 3)) == 0 else "\n"

    def scalar(self, value: str) -> str:
        simple = value and value.isalnum()
        style = self.draw(st.sampled_from(["plain", "single", "double"] if simple else ["single", "double"]))
        if style == "plain":
            return value
        if style == "single" and "\n" not in value:
            return "'" + value.replace("'", "''") + "'"
        return json.dumps(value, ensure_ascii=False)

    def flow(self, value) -> str:
        pad = self.draw(st.sampled_from(["", " ", "\n ", "every"]))

        def gap() -> str:
            return f" {self.comment()}\n " if pad == "every" else pad

        if isinstance(value, dict):
            parts = [f"{gap()}{self.scalar(k)}: {self.flow(v)}{gap()}" for k, v in value.items()]
            return "{" + ",".join(parts) + "}"
        if isinstance(value, list):
            return "[" + ",".join(f"{gap()}{self.flow(v)}{gap()}" for v in value) + "]"
        return self.scalar(value)

    def block(self, value, indent: int) -> str:
        """Lines of a mapping or list at ``indent``."""
        step = self.draw(st.integers(1, 4))
        text = ""
        for key, child in value.items() if isinstance(value, dict) else ((None, v) for v in value):
            head = " " * indent + (f"{self.scalar(key)}:" if key is not None else "-")
            text += self.between(indent + 2) + head + self.value(child, indent, step)
        return text + self.between(indent)

    def value(self, value, indent: int, step: int) -> str:
        if isinstance(value, str) and self.draw(st.booleans()) and value.strip() and "'" not in value:
            lines = [line for line in value.split("\n") if line.strip() and "#" not in line]
            if lines and not lines[0].startswith(" "):
                sign = self.draw(st.sampled_from(["|", ">", "|-", ">-", "|+"]))
                body = "".join(" " * (indent + step) + line + "\n" for line in lines)
                return f" {sign}{self.end()}{body}"
        if isinstance(value, str) or not value or self.draw(st.booleans()):
            return f" {self.flow(value)}{self.end()}"
        return self.end() + self.block(value, indent + step)


@st.composite
def documents(draw) -> tuple[str, list[str]]:
    writer = Writer(draw)
    value = draw(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=4))
    text = writer.between(0) + writer.block(value, 0)
    return text, writer.comments


def meaning(text: str):
    document = parse_text(SourceText(path="x.yml", text=text))
    return None if document.diagnostics or document.root is None else repr(document.root.value)


def laws(text: str) -> str:
    made = canonical(SourceText(path="x.yml", text=text))
    assert meaning(made) == meaning(text)
    assert canonical(SourceText(path="x.yml", text=made)) == made
    assert made.endswith("\n")
    assert "\n\n\n" not in made or '"' in made or "'" in made or "|" in made or ">" in made
    return made


@given(documents())
@without_deadline(150)
def test_written_anew_it_means_the_same(document):
    text, comments = document
    assume(meaning(text) is not None)
    made = laws(text)
    for comment in comments:
        assert comment in made


@given(mutated_texts())
@without_deadline(120)
def test_whatever_parses_keeps_its_meaning_or_is_refused(mutation):
    _, content = mutation
    text = content.decode("utf-8")
    if meaning(text) is None:
        return
    try:
        laws(text)
    except NotCanonicalError:
        assert any(sign in text for sign in ("?", "&", "\x85", "\u2028", "\n"))


@given(st.lists(st.sampled_from(["a", "bb", "long_column_name"]), min_size=1, max_size=40))
@without_deadline(60)
def test_brackets_stay_while_they_fit(names):
    flat = f"columns: [{', '.join(names)}]\n"
    made = laws(flat.replace(", ", ",   "))
    assert made == flat if len(flat) <= WIDTH + 1 else made.splitlines()[0] == "columns:"
