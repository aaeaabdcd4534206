"""The options of the sources of each format, and the checks of their values.

Spark passes unknown options to Hadoop, which takes settings, classes and paths from them. So only the options
listed here reach a reader. Formats that Spark itself does not support are read by a Spark package.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from parquetry.runtime.errors import InvalidDataError

AVRO_READER: Final = "spark-avro"
"""The text that every name of Spark's Avro reader contains: coordinates, URLs and jars."""

_SCALA_2_12_UNTIL: Final = 3
_NEWEST_AVRO_READER: Final = "4.1.1"
"""The newest version on Maven Central. A test reads with it in Spark 4.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionProblem:
    """An error in the option ``name``, and a hint.

    ``among`` has the names of the options with which it may have been confused.
    """

    name: str
    summary: str
    hint: str
    among: tuple[str, ...] = ()


_QUOTED: Final = re.compile(r"'[^']*'")
_LETTERS: Final = re.compile(r"(.)\1*")
_FRACTION: Final = 6
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?")
_ENCODING: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,40}")
_OFFSET: Final = re.compile(r"[+-](0[0-9]|1[0-8]):[0-5][0-9]")


def _flag(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "true or false"


def _number(value: str) -> str | None:
    return None if re.fullmatch(r"-1|[1-9][0-9]{0,8}", value) else "a whole number, or -1 for no limit"


def _text(_: str) -> str | None:
    return None


def _some_text(value: str) -> str | None:
    return None if value else "at least one character"


def _character(value: str) -> str | None:
    return None if len(value) == 1 else "one character"


def _character_or_none(value: str) -> str | None:
    return None if len(value) <= 1 else "one character, or nothing for none"


def _encoding(value: str) -> str | None:
    return None if _ENCODING.fullmatch(value) else "the name of a character set, such as ISO-8859-1"


def _zone(value: str) -> str | None:
    if value in ("UTC", "Z") or _OFFSET.fullmatch(value):
        return None
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return "a time zone, such as Europe/Berlin or +02:00"
    return None


def _locale(value: str) -> str | None:
    return None if _LOCALE.fullmatch(value) else "a language tag, such as de-DE"


def _date_format(value: str) -> str | None:
    letters = _parts(value)
    if not letters.keys() & {"y", "u"}:
        return "a pattern with a year, such as dd.MM.yyyy"
    if letters.keys() & set("aHhKkmsSAnNVzOXxZ"):
        return "a pattern without a time, which a date would lose"
    return None


def _timestamp_format(value: str) -> str | None:
    letters = _parts(value)
    if not letters.keys() & {"y", "u"}:
        return "a pattern with a year, such as dd.MM.yyyy HH:mm:ss"
    if letters.get("S", 0) > _FRACTION or letters.keys() & set("AnN"):
        return "a pattern of at most six digits of a second (SSSSSS): a timestamp holds no more"
    return None


def _parts(value: str) -> dict[str, int]:
    """Return the letters of a pattern of Java's DateTimeFormatter with the length of their runs."""
    runs = [found[0] for found in _LETTERS.finditer(_QUOTED.sub("", value)) if found[0].isalpha()]
    return {run[0]: len(run) for run in runs}


_Check = Callable[[str], str | None]
_FOLDERS: Final[Mapping[str, _Check]] = {"basePath": _some_text}
_FORMS: Final[Mapping[str, _Check]] = {
    "dateFormat": _date_format,
    "timestampFormat": _timestamp_format,
    "timeZone": _zone,
    "locale": _locale,
}
_REBASED: Final[Mapping[str, _Check]] = {
    "datetimeRebaseMode": lambda value: (
        None if value in ("EXCEPTION", "CORRECTED", "LEGACY") else "EXCEPTION, CORRECTED or LEGACY"
    )
}

READER_OPTIONS: Final[Mapping[str, Mapping[str, _Check]]] = {
    "csv": {
        "header": _flag,
        "sep": _some_text,
        "quote": _character_or_none,
        "escape": _character_or_none,
        "comment": _character,
        "multiLine": _flag,
        "lineSep": _some_text,
        "encoding": _encoding,
        "nullValue": _text,
        "nanValue": _some_text,
        "positiveInf": _some_text,
        "negativeInf": _some_text,
        "ignoreLeadingWhiteSpace": _flag,
        "ignoreTrailingWhiteSpace": _flag,
        "maxColumns": _number,
        "maxCharsPerColumn": _number,
        **_FORMS,
        **_FOLDERS,
    },
    "json": {
        "multiLine": _flag,
        "lineSep": _some_text,
        "allowComments": _flag,
        "allowUnquotedFieldNames": _flag,
        "allowSingleQuotes": _flag,
        "allowNumericLeadingZeros": _flag,
        "allowBackslashEscapingAnyCharacter": _flag,
        "allowUnquotedControlChars": _flag,
        "allowNonNumericNumbers": _flag,
        **_FORMS,
        **_FOLDERS,
    },
    "parquet": {**_REBASED, "int96RebaseMode": _REBASED["datetimeRebaseMode"], **_FOLDERS},
    "orc": _FOLDERS,
    "avro": {**_REBASED, **_FOLDERS},
    "hudi": {},
}
"""The options of each format with checks of their values, which return None or the expected form."""

_INSTEAD: Final[Mapping[str, str]] = {
    "delimiter": "use sep",
    "charset": "use encoding",
    "encoding": "write the files in UTF-8, the encoding of JSON",
    "inferschema": "remove it: the table's columns have the types",
    "mode": "remove it: a record that is malformed is always an error",
    "mergeschema": "remove it: files of different columns are always merged",
    "emptyvalue": "remove it: what is empty within quotes is an empty text",
    "samplingratio": "remove it: all records are read",
}


def option_problems(file_format: str, options: Mapping[str, object]) -> Iterator[OptionProblem]:
    """Yield the errors in the options of a source of this format. Names have any case, as in Spark."""
    known = {name.lower(): (name, check) for name, check in READER_OPTIONS[file_format].items()}
    seen: set[str] = set()
    for name, value in options.items():
        lower, text = name.lower(), str(value).lower() if isinstance(value, bool) else str(value)
        if lower not in known:
            summary, names = (
                f"format {file_format} has no option {name!r}",
                tuple(READER_OPTIONS[file_format]),
            )
            if (instead := _INSTEAD.get(lower)) is not None:
                yield OptionProblem(name=name, summary=summary, hint=instead)
            else:
                hint = (
                    f"its options are {', '.join(names)}" if names else "remove it: the format has no options"
                )
                yield OptionProblem(name=name, summary=summary, hint=hint, among=names)
            continue
        if lower in seen:
            yield OptionProblem(
                name=name, summary=f"option {name!r} is a duplicate", hint="remove one of the two"
            )
        seen.add(lower)
        if "${" in text:
            summary, hint = f"option {name!r} contains '${{', which Hadoop replaces", "write the value out"
            yield OptionProblem(name=name, summary=summary, hint=hint)
        elif (wanted := known[lower][1](text)) is not None:
            yield OptionProblem(
                name=name,
                summary=f"option {name!r} is {text!r}, but must be {wanted}",
                hint="correct the value",
            )


def checked_options(file_format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with their names in lower case, or raise InvalidDataError for the first error."""
    for problem in option_problems(file_format, options):
        raise InvalidDataError("{summary}; {hint}", summary=problem.summary, hint=problem.hint)
    return {name.lower(): value for name, value in options.items()}


def avro_package() -> str:
    """Return the Maven coordinates of the Avro reader for the PySpark that is installed here.

    PyPI has versions of Spark that Maven Central lacks. For those, it is the newest available reader.
    """
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = _NEWEST_AVRO_READER
    scala = "2.12" if int(spark.split(".")[0]) <= _SCALA_2_12_UNTIL else "2.13"
    reader = _NEWEST_AVRO_READER if _numbers(spark) > _numbers(_NEWEST_AVRO_READER) else spark
    return f"org.apache.spark:{AVRO_READER}_{scala}:{reader}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
