"""The groups of entry points from which plug-ins are loaded, and the names that are built in."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from parquetry.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugInGroup:
    """A group of entry points. ``noun`` is the word for its members in messages."""

    name: str
    noun: str
    built_in: tuple[str, ...]

    def entry_point(self, name: str) -> EntryPoint | None:
        """Return the installed entry point of that name, or None."""
        return next((point for point in entry_points(group=self.name) if point.name == name), None)

    def known_names(self) -> tuple[str, ...]:
        """Return the built-in names, then those of installed plug-ins, sorted."""
        return *self.built_in, *sorted({point.name for point in entry_points(group=self.name)})

    def missing(self, name: str) -> Message:
        """Return the message for a name that is neither built in nor installed."""
        return Message(
            "no {noun} {name!r} is installed here, only {known}; install the package that provides it "
            "in the entry-point group {group}",
            noun=self.noun,
            name=name,
            known=self.known_names(),
            group=self.name,
        )


PLAN_STRATEGIES: Final = PlugInGroup(
    name="parquetry.plan_strategies", noun="strategy", built_in=("size", "overlap", "commits")
)
EXECUTION_STRATEGIES: Final = PlugInGroup(
    name="parquetry.execution_strategies", noun="strategy", built_in=("stitch", "sort", "zorder", "hilbert")
)
KMS_CLIENTS: Final = PlugInGroup(
    name="parquetry.kms_clients", noun="client for keys", built_in=("env", "file")
)
