"""Faults of text files that Spark's readers do not report, so that rows are lost or cells are changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import Message, Text
from parquetry.runtime.sources.lines import CELL_CHARACTERS, find_line, unpacked
from parquetry.runtime.sources.listing import FoundFile, open_file
from parquetry.runtime.spark.read.source_failures import (
    UnreadableFileError,
    bare_name,
    check_begin,
    gone_file,
    is_gone,
)
from parquetry.runtime.spark.session.keys import literal
from parquetry.runtime.spark.session.settings import load_files, spark_version
from parquetry.runtime.spec.table_spec import Source

_OPEN_QUOTE: Final = "a quote is not closed; close it, or declare multiLine: true for cells of several lines"
_ODD_QUOTES: Final = "it has an odd number of quotes, so one is not closed"
_NOT_UTF_8: Final = "it has bytes that are not UTF-8; write it in UTF-8, or declare encoding for CSV"
_SEVERAL_RECORDS: Final = "it has more than one JSON value, and Spark would read only the first"
_HALF_CHARACTER: Final = "it has an escape of half a character (a surrogate without its other half)"
_LONG_NUMBER: Final = (
    "it has a number with more digits than a double holds, and this Spark reads numbers as doubles; put it "
    "in quotes, unpack a file that has records of several lines, or use Spark 4"
)
_SURROGATES: Final = "\\ud"
_SURROGATE: Final = (
    r"(?i)(?<!\\)\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})"
    r"|(?<!\\)(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}"
)
_NUMBER_AS_A_DOUBLE: Final = r"[:,\[]\s*-?(?:(?=[0-9.]{17})[0-9]*\.[0-9]|[0-9.]+[eE])"
_QUOTE: Final = '"'
_CLOSED: Final = literal("\n]")
# Text after the end of an object belongs to the first value of the line, or follows that value.
_TEXT, _GOES_ON = map(literal, (r"\S", r"[}\]]\s*[^\]}\s]"))
_ENDS: Final = "(endswith(rtrim(value), '}') OR endswith(rtrim(value), ']'))"
_MAY_BE_SEVERAL: Final = f"(NOT {_ENDS} AND value RLIKE {_TEXT} OR value RLIKE {_GOES_ON})"
_IS_WHOLE: Final = "length(translate(value, '{[', '')) >= length(translate(value, '}]', ''))"
_PACKED: Final = ("gz", "bz2", "zst", "deflate", "snappy", "lz4", "xz")
_NAME: Final = "_metadata.file_path"


def check_unseen_faults(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    options: Mapping[str, str],
    storage: Mapping[str, Any],
) -> None:
    """Check that the files have none of the faults that the readers of their format do not report.

    One pass reads all lines.

    Args:
        spark: The session.
        source: The declaration of the source; its format is CSV or JSON.
        files: The files of the batch.
        options: The options of the reader, by lower case names.
        storage: The options of the source's file system.

    Raises:
        UnreadableFileError: If there is a fault. It names the first file with one, and the line.

    """
    is_multi_line = options.get("multiline", "").lower() == "true"
    whole = is_multi_line and source.format == "json"
    reader = spark.read.format("text").options(
        wholetext=str(whole).lower(), ignoreCorruptFiles="false", ignoreMissingFiles="false"
    )
    if "linesep" in options and not whole:
        reader = reader.option("lineSep", options["linesep"])
    try:
        lines = load_files(spark, reader, [file.spark_uri for file in files])
    except PySparkException as error:
        if is_gone(error):
            raise gone_file(error) from error
        raise
    faults: dict[str, str] = {}
    if options.get("encoding", "utf-8").lower() in ("utf-8", "utf8"):
        is_new = spark_version(spark) >= (4, 0)
        valid = "is_valid_utf8(value)" if is_new else "encode(value, 'UTF-8') = CAST(value AS BINARY)"
        faults[_NOT_UTF_8] = f"NOT ({valid})"
    if source.format == "json":
        is_exact = spark_version(spark) >= (4, 0) and not (is_multi_line and _any_packed(files))
        faults |= _json_faults(options, is_exact=is_exact)
    else:
        faults |= _csv_faults(options, is_multi_line=is_multi_line)
    found = _first(lines, faults)
    if found is None and is_multi_line and source.format == "csv":
        found = _file_of_odd_quotes(lines, options)
    if found is None:
        return
    name, fault, begin = found
    reason: Text = fault
    file = next((each for each in files if bare_name(each.spark_uri) == bare_name(name)), None)
    if file is not None and begin:
        with open_file(file, storage) as handle:
            check_begin(file.file.path, bytes(handle.read(4)), options)
        with open_file(file, storage) as handle:
            place = find_line(unpacked(handle, file.uri), begin.decode(errors="replace"), options=options)
        if place.line is not None:
            reason = Message("line {line}, {reason}", line=place.line, reason=fault)
    raise UnreadableFileError(name if file is None else file.file.path, reason)


def _first(lines: DataFrame, faults: Mapping[str, str]) -> tuple[str, str, bytes] | None:
    """Return a file with a fault, the fault, and the first bytes of its line, or None if there is no fault.

    Of several files, the one whose name sorts first is returned. ``faults`` are conditions in SQL by fault.
    """
    if not faults:
        return None
    cases = " ".join(f"WHEN {fault} THEN {literal(reason)}" for reason, fault in faults.items())
    begin = f"substr(CAST(value AS BINARY), 1, {CELL_CHARACTERS})"
    faulty = lines.selectExpr(f"{_NAME} AS name", f"CASE {cases} END AS reason", f"{begin} AS begin")
    (row,) = faulty.where("reason IS NOT NULL").agg(F.min(F.struct("name", "reason", "begin"))).collect()
    return None if row[0] is None else (row[0]["name"], row[0]["reason"], bytes(row[0]["begin"]))


def _file_of_odd_quotes(lines: DataFrame, options: Mapping[str, str]) -> tuple[str, str, bytes] | None:
    """Return a file with an odd number of quotes, the fault, and no bytes, or None."""
    if (quotes := _quotes(options)) is None:
        return None
    counts = lines.groupBy(F.expr(_NAME).alias("name")).agg(F.expr(f"sum({quotes}) % 2 = 1").alias("is_odd"))
    (row,) = counts.where("is_odd").agg(F.min("name")).collect()
    return None if row[0] is None else (row[0], _ODD_QUOTES, b"")


def _csv_faults(options: Mapping[str, str], *, is_multi_line: bool) -> Iterator[tuple[str, str]]:
    """Yield the faults of a CSV line, each with the SQL condition that is true for it."""
    if is_multi_line or (quotes := _quotes(options)) is None:
        return
    quote, separator = re.escape(options.get("quote", _QUOTE)), re.escape(options.get("sep", ","))
    begin = rf"(?:^|(?<={separator}))"
    blanks = " *" if options.get("ignoreleadingwhitespace", "").lower() == "true" else ""
    whole = rf"{begin}{blanks}{quote}[^{quote}]*(?:{quote}{quote}[^{quote}]*)*{quote}(?={separator}|$)"
    rest = f"regexp_replace({_unescaped(options)}, {literal(whole)}, '')"
    has_quotes = f"instr(value, {literal(options.get('quote', _QUOTE))}) > 0 AND {quotes} % 2 = 1"
    is_open = f"{has_quotes} AND {rest} RLIKE {literal(f'{begin}{blanks}{quote}')}"
    comment = options.get("comment")
    yield (
        _OPEN_QUOTE,
        is_open if comment is None else f"NOT startswith(value, {literal(comment)}) AND {is_open}",
    )


def _quotes(options: Mapping[str, str]) -> str | None:
    """Return SQL for the number of a line's quotes that may delimit cells; None if no cell has quotes."""
    encoding, quote = options.get("encoding", "utf-8").lower(), options.get("quote", _QUOTE)
    if not quote.isascii() or not quote or encoding.startswith(("utf-16", "utf-32", "utf16", "utf32", "ucs")):
        return None
    return f"(length({_unescaped(options)}) - length(replace({_unescaped(options)}, {literal(quote)}, '')))"


def _unescaped(options: Mapping[str, str]) -> str:
    """Return SQL for a line without its escaped characters.

    If no other character than the quote escapes, this is the line itself.
    """
    quote = options.get("quote", _QUOTE)
    escape = options.get("escape", quote)
    if escape in ("", quote):
        return "value"
    return f"replace(replace(value, {literal(escape * 2)}, ''), {literal(escape + quote)}, '')"


def _json_faults(options: Mapping[str, str], *, is_exact: bool) -> Iterator[tuple[str, str]]:
    """Yield the faults of a JSON line, each with the SQL condition that is true for it."""
    allowed = {"mode": "PERMISSIVE"} | {n: value for n, value in options.items() if n.startswith("allow")}
    pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in allowed.items())
    count = f"coalesce(size(from_json(concat('[', value, {_CLOSED}), 'array<string>', map({pairs}))), -1)"
    # The reader itself refuses an incomplete value.
    yield _SEVERAL_RECORDS, f"{_MAY_BE_SEVERAL} AND ({count} > 1 OR ({count} < 1 AND {_IS_WHOLE}))"
    yield (
        _HALF_CHARACTER,
        f"instr(lower(value), {literal(_SURROGATES)}) > 0 AND value RLIKE {literal(_SURROGATE)}",
    )
    if not is_exact:
        yield _LONG_NUMBER, f"value RLIKE {literal(_NUMBER_AS_A_DOUBLE)}"


def _any_packed(files: Sequence[FoundFile]) -> bool:
    return any(file.uri.rpartition(".")[2].lower() in _PACKED for file in files)
