"""The generated parts of docs/reference/commands: a page for each command, and the list of all.

``python -m tools.command_reference`` writes them between two marks on each page. What follows the second mark
is written by hand. A test checks that the parts are current, and that no page is left of a command that is gone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from parquetry.cli.main import COMMANDS, SECTIONS, command_line
from tools.wrap_markdown import wrapped

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "commands"
INDEX = FOLDER / "README.md"
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
    for name in COMMANDS:
        yield from _commands_of(name)


def pages() -> dict[Path, str]:
    """Return the text of each page with a new generated part, by its file."""
    texts = {
        page_of(name): _page(page_of(name), f"parquetry {name}", _description(name)) for name in COMMANDS
    }
    return texts | {INDEX: _page(INDEX, "Commands", _index())}


def page_of(name: str) -> Path:
    """Return the file of the page of a command; the commands of a group share the page of the group."""
    return FOLDER / f"{name.split(maxsplit=1)[0]}.md"


def _page(file: Path, title: str, lines: Sequence[str]) -> str:
    current = file.read_text(encoding="utf-8") if file.exists() else f"# {title}\n\n{BEGIN}\n{END}\n"
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    generated = "\n".join(lines)
    return wrapped(f"{before}{BEGIN}\n\n{generated}\n{END}{after}")


def _index() -> list[str]:
    lines = ["## Every command", ""]
    for title, _, names in SECTIONS:
        rows = [f"| [`{name}`]({page_of(name).name}) | {COMMANDS[name]} |" for name in names]
        lines += [f"| {title} | |", "|---|---|", *rows, ""]
    options = [option for _, command in commands() for option in _options(command)]
    shared = {option.name: option for option in options if option.name in _SHARED}
    return [*lines, "## Options that commands share", "", *_table(list(shared.values())), ""]


def _description(name: str) -> list[str]:
    group = _command(name)
    if not isinstance(group, click.Group):
        return _command_lines(name, group)
    lines = [*_help(group), ""]
    for full_name, command in _commands_of(name):
        lines += [f"## parquetry {full_name}", "", *_command_lines(full_name, command)]
    return lines


def _command_lines(name: str, command: click.Command) -> list[str]:
    own = [option for option in _options(command) if option.name not in _SHARED]
    shared = [f"`{option.opts[0]}`" for option in _options(command) if option.name in _SHARED]
    lines = [_usage(name, command), "", *_help(command), ""]
    if own:
        lines += [*_table(own), ""]
    if shared:
        lines += [f"[Shared options](README.md#options-that-commands-share): {', '.join(shared)}.", ""]
    return lines


def _command(name: str) -> click.Command:
    command = command_line.get_command(click.Context(command_line), name)
    assert command is not None
    return command


def _commands_of(name: str) -> Iterator[tuple[str, click.Command]]:
    command = _command(name)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield f"{name} {inner.name}", inner
    else:
        yield name, command


def _options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def _usage(name: str, command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    words = [p.make_metavar(click.Context(command)) for p in arguments]
    return f"`{' '.join(['parquetry', name, '[OPTIONS]', *words])}`"


def _help(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").splitlines()


def _table(options: Sequence[click.Option]) -> list[str]:
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
    for _file, _text in pages().items():
        _file.write_text(_text, encoding="utf-8")
