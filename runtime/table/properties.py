"""hoodie.properties: Java property files with a checksum, and their safe replacement.

Source: java.util.Properties and HoodieTableConfig.{fetchConfigs,modify,generateChecksum} of Hudi 0.15.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.storage.model import ObjectStore

PROPERTIES_PATH: Final = ".hoodie/hoodie.properties"
BACKUP_PATH: Final = ".hoodie/hoodie.properties.backup"
CHECKSUM_KEY: Final = "hoodie.table.checksum"

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def boolean_text(*, value: bool) -> str:
    """Return the boolean as Hudi spells it in properties and options."""
    return "true" if value else "false"


def table_checksum(properties: Mapping[str, str]) -> str:
    """Return Hudi's checksum: the CRC-32 of ``<database>.<table>`` in decimal digits."""
    names = f"{properties.get('hoodie.database.name', '')}.{properties.get('hoodie.table.name', '')}"
    return str(zlib.crc32(names.encode()))


def parse_properties(content: bytes) -> dict[str, str]:
    r"""Return the pairs of a Java property file (ISO-8859-1, ``\uXXXX``, continuation lines).

    Raises:
        ValueError: If a ``\u`` escape is malformed.

    """
    properties = {}
    for line in _logical_lines(content.decode("latin-1")):
        key, value = _split_pair(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Mapping[str, str], *, comment: str) -> bytes:
    """Return a Java property file with one comment line and sorted keys.

    Values contain ``:``, ``=``, ``#`` and ``!`` unescaped: Java reads both forms, hudi-rs only this one.
    """
    lines = [f"#{comment}"]
    lines += [
        f"{_escape(key, key=True)}={_escape(value, key=False)}" for key, value in sorted(properties.items())
    ]
    return ("\n".join(lines) + "\n").encode("latin-1")


def is_intact(properties: Mapping[str, str]) -> bool:
    """Return whether the properties match their checksum, or have none.

    Those of a truncated file do not match.
    """
    return bool(properties) and properties.get(CHECKSUM_KEY) in (None, table_checksum(properties))


def read_table_properties(store: ObjectStore) -> dict[str, str]:
    """Return the table's properties. If another writer is replacing the file, read the backup.

    If the backup is missing or damaged too, the file is read again, because the replacement may have ended.

    Raises:
        NotFoundError: If neither file exists.
        CorruptTableError: If neither file is intact.

    """
    exists = False
    for path in (PROPERTIES_PATH, BACKUP_PATH, PROPERTIES_PATH):
        properties = _read(store, path)
        if properties is None:
            continue
        if is_intact(properties):
            return properties
        exists = True
    if not exists:
        raise NotFoundError("{table}: there is no {file}", table=store.uri, file=PROPERTIES_PATH)
    raise CorruptTableError(
        "{table}/{file}: truncated or edited: its {property} does not match the names "
        "of database and table; restore the file from a copy",
        table=store.uri,
        file=PROPERTIES_PATH,
        property=CHECKSUM_KEY,
    )


def update_table_properties(
    store: ObjectStore, changes: Mapping[str, str], *, remove: Collection[str] = (), comment: str
) -> dict[str, str]:
    """Change the table's properties as Hudi does, and return the new ones.

    At every moment, either the file or its backup is complete. The caller must hold the lock of the table.

    Args:
        store: The store of the table.
        changes: New values by key.
        remove: Keys to remove.
        comment: The comment line of the new file.

    Raises:
        CorruptTableError: If another program changed the file during the replacement.

    """
    _recover(store)
    old = read_table_properties(store)
    new = {key: value for key, value in {**old, **changes}.items() if key not in remove}
    new[CHECKSUM_KEY] = table_checksum(new)
    store.put(BACKUP_PATH, store.read(PROPERTIES_PATH))
    store.put(PROPERTIES_PATH, format_properties(new, comment=comment))
    if _read(store, PROPERTIES_PATH) != new:
        raise CorruptTableError(
            "{table}/{file}: another program changed it while it was replaced; compare it "
            "with {backup} and keep the right one",
            table=store.uri,
            file=PROPERTIES_PATH,
            backup=BACKUP_PATH,
        )
    store.delete(BACKUP_PATH)
    return new


def _recover(store: ObjectStore) -> None:
    backup = _read(store, BACKUP_PATH)
    if backup is None:
        return
    current = _read(store, PROPERTIES_PATH)
    if current is None or not is_intact(current):
        if not is_intact(backup):
            return
        store.put(PROPERTIES_PATH, store.read(BACKUP_PATH))
    store.delete(BACKUP_PATH)


def _read(store: ObjectStore, path: str) -> dict[str, str] | None:
    try:
        content = store.read(path)
    except NotFoundError:
        return None
    try:
        return parse_properties(content)
    except ValueError:
        return {}


def _logical_lines(text: str) -> Iterator[str]:
    continued = ""
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued += line[:-1]
            continue
        yield continued + line
        continued = ""
    if continued:
        yield continued


def _split_pair(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            units.append(character)
            continue
        escape = text[position : position + 1]
        position += 1
        if escape == "u":
            units.append(chr(int(text[position : position + 4], 16)))
            position += 4
        else:
            units.append(_ESCAPES.get(escape, escape))
    # Java writes a character outside the basic plane as two escaped surrogates.
    return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _escape(text: str, *, key: bool) -> str:
    written = []
    for position, character in enumerate(text):
        if character == " " and (key or position == 0):
            written.append("\\ ")
        elif character in "\t\n\r\f":
            written.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[character])
        elif character == "\\" or (key and character in "=:#!"):
            written.append("\\" + character)
        elif " " <= character <= "~":
            written.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex().upper()
            written += [f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)]
    return "".join(written)
