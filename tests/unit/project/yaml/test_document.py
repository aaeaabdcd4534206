from __future__ import annotations

import pytest

from parquetry.project.diagnostics.codes import CODES
from parquetry.project.validation.spec_file import MOST_TEMPLATES
from parquetry.project.yaml.document import MAX_ALIASES, MAX_BYTES, MAX_DEPTH, MAX_NODES, parse
from parquetry.project.yaml.scalar import NOT_USABLE, scalar


def codes(data: bytes) -> list[str]:
    return [found.code for found in parse("x.yml", data).diagnostics]


def value(data: bytes):
    document = parse("x.yml", data)
    assert document.diagnostics == ()
    assert document.root is not None
    return document.root.value


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("on", "on"),
        ("n", "n"),
        ("012", 12),
        ("0o17", 15),
        ("0xff", 255),
        ("-5", -5),
        ("+5", 5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2013-01-01", "2013-01-01"),
        ("2013-01-01 10:00:00", "2013-01-01 10:00:00"),
        ("0b11", "0b11"),
        ("-", "-"),
        ("1.2.3", "1.2.3"),
        (".inf", NOT_USABLE),
        ("-.INF", NOT_USABLE),
        (".nan", NOT_USABLE),
        ("1e999", NOT_USABLE),
        ("9" * 19, NOT_USABLE),
        ("true ", "true "),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text, meaning):
    found = scalar(text)
    assert found == meaning
    assert type(found) is type(meaning)


def test_quoted_scalars_are_texts():
    assert value(b"a: \"true\"\nb: '1'\nc: |\n  null\nd: >-\n  2\n") == {
        "a": "true",
        "b": "1",
        "c": "null\n",
        "d": "2",
    }


def test_places_of_keys_and_values():
    document = parse("x.yml", "a:\n  - {b: 'é', c: [x, y]}\n".encode())
    root = document.root
    assert root.key_span(("a", 0, "c")).start == (2, 14)
    assert root.at(("a", 0, "c", 1)).span == ((2, 21), (2, 22))
    assert root.at(("a", 0, "b")).span.start == (2, 9)
    assert root.at(("a", 7, "nothing")).span == root.at(("a",)).span


def test_byte_order_mark_is_no_part_of_the_text():
    document = parse("x.yml", b"\xef\xbb\xbfa: 1\n")
    assert document.root.value == {"a": 1}
    assert document.root.keys["a"].start == (1, 1)


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (b"a: 1\nb: \xff\xfe\n", "PQ003", (2, 4)),
        (b"a: 1\nb: x\x00\n", "PQ003", (2, 5)),
        (b"a: \x1b[31m\n", "PQ003", (1, 4)),
        ("a: x\ufeffy\n".encode(), "PQ003", (1, 5)),
        ("a: 1".encode("utf-16"), "PQ003", (1, 1)),
        (b"", "PQ009", (1, 1)),
        (b"\n\n# nothing\n", "PQ009", (1, 1)),
        (b"---\n...\n", "PQ009", (1, 1)),
        (b"a: 1\n...\n---\nb: 1\n", "PQ008", (3, 1)),
        (b"a: {b: 1, c: 2, b: 3}\n", "PQ004", (1, 17)),
        (b"1: a\n", "PQ006", (1, 1)),
        (b"true: a\n", "PQ006", (1, 1)),
        (b"null: a\n", "PQ006", (1, 1)),
        (b"? {a: 1}\n: b\n", "PQ006", (1, 3)),
        (b"x: &k key\n*k : 1\n", "PQ006", (2, 1)),
        (b"x: {{ var('y') }}\n", "PQ006", (1, 4)),
        (b"{{ var('y') }}: x\n", "PQ006", (1, 1)),
        (b"x: {{ var('y') }}/z\n", "PQ002", (1, 18)),
        (b"x: {{ var('y', 'z') }}\n", "PQ002", (1, 5)),
        (b"a: !!str 5\n", "PQ007", (1, 4)),
        (b"a: !!binary aGk=\n", "PQ007", (1, 4)),
        (b"a: !custom [1]\n", "PQ007", (1, 4)),
        (b"a:\n\tb: 1\n", "PQ002", (2, 1)),
        (b"a: 'x\n", "PQ002", (1, 4)),
        (b"a: %x\n", "PQ002", (1, 4)),
        (b"%YAML 9.9\n---\na: 1\n", "PQ002", (1, 1)),
    ],
)
def test_what_is_not_accepted(data, code, place):
    found = parse("x.yml", data).diagnostics
    assert [one.code for one in found] == [code]
    assert (found[0].line, found[0].column) == place


@pytest.mark.parametrize(
    ("written", "quoted"),
    [
        ("{{ var('y') }}", "\"{{ var('y') }}\""),
        ('{{ var("y") }}', "'{{ var(\"y\") }}'"),
        ('{{ var("y") }}/z', "'{{ var(\"y\") }}/z'"),
    ],
)
def test_the_remedy_for_a_template_without_quotes_works(written, quoted):
    (found,) = parse("x.yml", f"x: {written}\n".encode()).diagnostics
    assert found.hint.endswith(f"in quotes: {quoted[0]}{{{{ ... }}}}{quoted[0]}")
    assert value(f"x: {quoted}\n".encode()) == {"x": written}


def test_words_of_yaml_1_1_are_keys():
    assert value(b"on: 1\nyes: 2\n") == {"on": 1, "yes": 2}


def test_quoted_numbers_are_keys():
    assert value(b"'1': a\n\"null\": b\n") == {"1": "a", "null": "b"}


def test_all_findings_of_a_file_in_one_pass():
    data = b"a: 1\na: 2\n<<: {b: 1}\n3: x\nc: !t y\nd: .inf\n"
    assert codes(data) == ["PQ004", "PQ005", "PQ006", "PQ007", "PQ014"]


def test_an_alias_repeats_the_value_and_its_place():
    document = parse("x.yml", b"a: &x [1, 2]\nb: *x\n")
    assert document.root.value == {"a": [1, 2], "b": [1, 2]}
    assert document.root.at(("b", 0)).span.start == (1, 8)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (MAX_BYTES + 1),
        b"a: " + b"[" * 500_000,
        b"a: " + b"{a: " * (MAX_DEPTH + 5),
        b"- x\n" * (MAX_NODES + 5),
        b"a: &x 1\nb: [" + b"*x, " * (MAX_ALIASES + 5) + b"]\n",
        b"- &a [x, x]\n"
        + b"".join(
            b"- &a%d [*a%s, *a%s]\n" % (i, s, s)
            for i, s in zip(range(45), [b"", *(b"%d" % i for i in range(45))], strict=False)
        ),
    ],
    ids=["bytes", "brackets", "mappings", "values", "aliases", "bomb"],
)
def test_bombs_are_refused(data):
    assert codes(data) == ["PQ010"]


def test_the_explanation_states_the_limits():
    limits = (
        f"at most {MAX_BYTES >> 20} MiB, {MAX_NODES:,} values",
        f", {MAX_DEPTH} levels and {MAX_ALIASES} aliases.",
        f"at most {MOST_TEMPLATES:,} templates, which make at most {MAX_BYTES:,} characters",
    )
    explanation = CODES["PQ010"].explanation
    assert [limit for limit in limits if limit not in explanation] == []


def test_a_megabyte_of_text_is_read():
    assert value(b"a: " + b"x" * (MAX_BYTES - 10)) == {"a": "x" * (MAX_BYTES - 10)}
