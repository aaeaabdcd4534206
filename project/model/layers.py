"""Layers of settings laid over each other, with the place that each value came from.

Mappings merge by key, everything else is replaced by the later layer, and tags unite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from parquetry.project.diagnostics.source import SourceText, Span
from parquetry.project.model.resolved import BUILT_IN, History, Layer, LayerValue, Origin
from parquetry.project.yaml.document import Node

Note = Callable[[str, Span, Span], None]
"""Takes a dotted path and the places of its key and its value."""

_UNITED = "tags"
_REPLACED = frozenset({"options"})


class Place(NamedTuple):
    """Where the winning value of a setting stands."""

    layer: Layer
    source: SourceText
    key: Span
    value: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerValues:
    """One layer: values and the node they were written in; the built-in one has no node."""

    layer: Layer
    value: Mapping[str, Any]
    source: SourceText | None = None
    node: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """The merged values, nested as in a file, and the place of each dotted path."""

    value: Mapping[str, Any]
    places: Mapping[str, Place]

    def place(self, path: str) -> Place | None:
        """The place of a path, or of the nearest one above it that was written."""
        while path:
            if path in self.places:
                return self.places[path]
            path = path.rpartition(".")[0]
        return None

    def origins(self, paths: Iterable[str]) -> dict[str, Origin]:
        """The origin of every path that was written, and of ``paths`` that were not."""
        found = {
            path: Origin(place.layer, place.source.path, *place.key.start)
            for path, place in self.places.items()
        }
        for path in paths:
            found.setdefault(path, BUILT_IN)
        return found


def merge(parts: Iterable[LayerValues]) -> Layered:
    """The parts laid over each other in their order."""
    value: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for part in parts:
        note = _notebook(part, places)
        _lay(value, part.value, part.node, "", note)
    return Layered(value=value, places=places)


def history(parts: Iterable[LayerValues]) -> History:
    """What each part says about each dotted path, in the order of the parts."""
    found: dict[str, list[LayerValue]] = {}
    for part in parts:
        layered = merge([part])
        for path, value in leaves(part.value):
            place = layered.place(path)
            origin = Origin(part.layer, place.source.path, *place.key.start) if place else BUILT_IN
            found.setdefault(path, []).append(LayerValue(value=value, origin=origin))
    return {path: tuple(values) for path, values in found.items()}


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted path and value of everything that is no mapping and no list of mappings."""
    for key, child in value.items():
        path = f"{prefix}{key}"
        if isinstance(child, Mapping):
            yield from leaves(child, f"{path}.")
        elif isinstance(child, list) and child and isinstance(child[0], Mapping):
            for index, entry in enumerate(child):
                yield from leaves(entry, f"{path}.{entry_name(entry, index)}.")
        else:
            yield path, child


def entry_name(entry: Any, index: int) -> str:
    """How an entry of a list is addressed in a path: by its name, else by its index."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else str(index)


def _notebook(part: LayerValues, places: dict[str, Place]) -> Note:
    """Writes down places of one layer; nothing for the built-in one, which has no file."""

    def note(path: str, key: Span, value: Span) -> None:
        if part.source is not None:
            places[path] = Place(part.layer, part.source, key, value)

    return note


def _lay(
    target: dict[str, Any], value: Mapping[str, Any], node: Node | None, prefix: str, note: Note
) -> None:
    """Lays a mapping over ``target``; ``prefix`` is the path of both with a dot at its end."""
    for key, child in value.items():
        path = f"{prefix}{key}"
        below = node.children.get(key) if node else None
        if node and below:
            note(path, node.keys[key], below.span)
        if isinstance(child, Mapping) and key not in _REPLACED:
            held = target.get(key)
            mapping = dict(held) if isinstance(held, Mapping) else {}
            target[key] = mapping
            _lay(mapping, child, below, f"{path}.", note)
            continue
        united = key == _UNITED and not prefix
        target[key] = list(dict.fromkeys([*target.get(key, ()), *child])) if united else child
        if below:
            _note_entries(child, below, path, note)


def _note_entries(value: Any, node: Node, path: str, note: Note) -> None:
    """Notes the places of what stands in a list or in a mapping that does not merge."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            below = node.children[key]
            note(f"{path}.{key}", node.keys[key], below.span)
            _note_entries(child, below, f"{path}.{key}", note)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            below = node.children[index]
            at = f"{path}.{entry_name(entry, index)}"
            note(at, below.span, below.span)
            _note_entries(entry, below, at, note)
