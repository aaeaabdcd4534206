"""Layers of settings, merged in order, with the position that each value came from.

Mappings are merged by key. Tags are united. Of every other value, the one of the later layer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from parquetry.project.diagnostics.source import SourceText, Span
from parquetry.project.model.resolved import BUILT_IN, History, Layer, LayerValue, Origin
from parquetry.project.yaml.document import Node

RecordPosition = Callable[[str, Span, Span], None]
"""A function that records the positions of a dotted path's key and value."""

_UNITED = "tags"
_REPLACED = frozenset({"options"})


class Place(NamedTuple):
    """The position of the setting's effective value."""

    layer: Layer
    source: SourceText
    key: Span
    value: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerValues:
    """One layer: its values and their node. The built-in layer has no node."""

    layer: Layer
    value: Mapping[str, Any]
    source: SourceText | None = None
    node: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """The merged values, nested as in a file, and the position of each dotted path."""

    value: Mapping[str, Any]
    places: Mapping[str, Place]

    def place(self, path: str) -> Place | None:
        """Return the position of a path, or of its nearest parent that was written, or None."""
        while path:
            if path in self.places:
                return self.places[path]
            path = path.rpartition(".")[0]
        return None

    def origins(self, paths: Iterable[str]) -> dict[str, Origin]:
        """Return the origin of each written path; a path of ``paths`` that was not written is built in."""
        found = {
            path: Origin(place.layer, place.source.path, *place.key.start)
            for path, place in self.places.items()
        }
        for path in paths:
            found.setdefault(path, BUILT_IN)
        return found


def merge(parts: Iterable[LayerValues]) -> Layered:
    """Merge layers in their order; a later one wins."""
    value: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for part in parts:
        note = _position_recorder(part, places)
        _merge_into(value, part.value, part.node, "", note)
    return Layered(value=value, places=places)


def history(parts: Iterable[LayerValues]) -> History:
    """Return the value of each layer for each dotted path, in the order of the layers."""
    found: dict[str, list[LayerValue]] = {}
    for part in parts:
        layered = merge([part])
        for path, value in leaves(part.value):
            place = layered.place(path)
            origin = Origin(part.layer, place.source.path, *place.key.start) if place else BUILT_IN
            found.setdefault(path, []).append(LayerValue(value=value, origin=origin))
    return {path: tuple(values) for path, values in found.items()}


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and value of everything but mappings and lists of mappings."""
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
    """Return the step of a path that addresses a list entry: its name, or else its index."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else str(index)


def _position_recorder(part: LayerValues, places: dict[str, Place]) -> RecordPosition:
    """Return a function that records positions of one layer; it does nothing for the built-in layer."""

    def note(path: str, key: Span, value: Span) -> None:
        if part.source is not None:
            places[path] = Place(part.layer, part.source, key, value)

    return note


def _merge_into(
    target: dict[str, Any], value: Mapping[str, Any], node: Node | None, prefix: str, note: RecordPosition
) -> None:
    """Merge a mapping into ``target``; ``prefix`` is the path of both, with a dot at its end."""
    for key, child in value.items():
        path = f"{prefix}{key}"
        below = node.children.get(key) if node else None
        if node and below:
            note(path, node.keys[key], below.span)
        if isinstance(child, Mapping) and key not in _REPLACED:
            held = target.get(key)
            mapping = dict(held) if isinstance(held, Mapping) else {}
            target[key] = mapping
            _merge_into(mapping, child, below, f"{path}.", note)
            continue
        united = key == _UNITED and not prefix
        target[key] = list(dict.fromkeys([*target.get(key, ()), *child])) if united else child
        if below:
            _note_entries(child, below, path, note)


def _note_entries(value: Any, node: Node, path: str, note: RecordPosition) -> None:
    """Record the positions within a list, or within a mapping that does not merge."""
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
