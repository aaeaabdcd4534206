"""The generated part of docs/reference/commands.md: each command with its arguments and options.

``python -m tools.command_reference`` writes it between the two marks. The rest of the page is written by
hand. A test checks that the part is current.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from parquetry.cli.main import command_line
from tools.wrap_markdown import wrapped

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "commands.md"
BEGIN = "<!-- begin: written by `python -m tools.command_reference` -->"
END = "<!-- end -->"

_SHARED = frozenset(
    {
        *("project_directory", "target", "select", "exclude", "variables"),
        *("color", "quiet", "verbose", "log_format"),
    }
)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command that is not a group, with its full name, in the order of `parquetry --help`."""
    context = click.Context(command_line)
    for name in command_line.list_commands(context):
        command = command_line.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for inner in command.commands.values():
                yield f"{name} {inner.name}", inner
        else:
            yield name, command


def generated() -> str:
    """Return the text between the marks."""
    lines: list[str] = []
    shared: dict[str, click.Option] = {}
    for name, command in commands():
        options = [p for p in command.params if isinstance(p, click.Option)]
        own = [option for option in options if option.name not in _SHARED]
        shared |= {option.name: option for option in options if option.name in _SHARED and option.name}
        lines += [f"### parquetry {name}", "", _usage(name, command), "", *_help(command), ""]
        lines += [*_table(own), ""]
    return "\n".join([*lines, "### Options that commands share", "", *_table(list(shared.values())), ""])


def page(current: str) -> str:
    """Return the page with a new generated part."""
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    return wrapped(f"{before}{BEGIN}\n\n{generated()}\n{END}{after}")


def _usage(name: str, command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    words = [p.make_metavar(click.Context(command)) for p in arguments]
    return f"`{' '.join(['parquetry', name, '[OPTIONS]', *words])}`"


def _help(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").splitlines()


def _table(options: list[click.Option]) -> list[str]:
    rows = [f"| {' | '.join(_row(option))} |" for option in options]
    return ["| option | default | environment | meaning |", "|---|---|---|---|", *rows]


def _row(option: click.Option) -> tuple[str, ...]:
    names = ", ".join(option.opts)
    values = "" if option.is_flag else f" {_values(option)}"
    default = "required" if option.required else _default(option)
    variable = f"`{option.envvar}`" if isinstance(option.envvar, str) else ""
    return f"`{names}{values}`".replace("|", "\\|"), default, variable, option.help or ""


def _values(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices)
    return option.make_metavar(click.Context(command_line)).partition("  ")[0].strip("[]")


def _default(option: click.Option) -> str:
    shown = option.show_default and isinstance(option.default, str)
    return str(option.default) if shown else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
