"""The options that commands share, gathered into frozen requests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from parquetry.cli.requests import completion
from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.errors import ParquetryError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRequest:
    """The project, target and tables of a command; ``typed_options`` are those that the user typed."""

    directory: Path
    target: str | None
    select: tuple[str, ...]
    exclude: tuple[str, ...]
    variables: Mapping[str, str]
    typed_options: TypedOptions


def _variable(value: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``; raise click.BadParameter for another text."""
    name, sign, text = value.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{value!r} is not NAME=VALUE")
    return name, text


class _Switch(click.types.BoolParamType):
    """A flag whose environment variable accepts the usual words for yes and no."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return True or False.

        Raises:
            click.BadParameter: The word is neither yes nor no.

        """
        switched = self.str_to_bool(value)
        if switched is None:
            self.fail(
                f"{value!r} is neither yes nor no: write 1, true or yes, else 0, false or no", param, ctx
            )
        return switched


SWITCH = _Switch()


def project_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of a project to a command, which gets a :class:`ProjectRequest` as ``request``."""
    return _with_request(command, (*_DIRECTORY, *_TARGET, *_SELECTION, *_VARIABLES))


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a project without selectors, for a command whose argument names its table."""
    return _with_request(command, (*_DIRECTORY, *_TARGET, *_VARIABLES))


def refuse_selection(what: str) -> None:
    """Raise click.UsageError if --select or --exclude were typed for a command that selects nothing.

    Their environment variables are ignored, as they are meant for other commands.
    """
    context = click.get_current_context()
    for option in ("select", "exclude"):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{what}: leave out --{option}")


def _typed_options(
    *,
    project_directory: Path,
    target: str | None,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    variables: tuple[tuple[str, str], ...],
) -> TypedOptions:
    """Return the values that were typed, without those from environment variables.

    The next command gets those of environment variables, too.
    """
    context = click.get_current_context()

    def is_typed(option: str) -> bool:
        return context.get_parameter_source(option) is ParameterSource.COMMANDLINE

    return TypedOptions(
        directory=project_directory if is_typed("project_directory") else None,
        target=target if is_typed("target") else None,
        select=select if is_typed("select") else (),
        exclude=exclude if is_typed("exclude") else (),
        variables=variables if is_typed("variables") else (),
    )


def directory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add only --project, for a command that works on the files of a directory even if they are invalid."""
    return _with_request(command, _DIRECTORY)


def _with_request(
    command: Callable[..., Any], options: tuple[Callable[[Any], Any], ...]
) -> Callable[..., Any]:
    """Add options to a command, which gets their values as a :class:`ProjectRequest`."""

    @functools.wraps(command)
    def wrapper(
        *,
        project_directory: Path,
        target: str | None = None,
        select: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        variables: tuple[tuple[str, str], ...] = (),
        **rest: Any,
    ) -> Any:
        request = ProjectRequest(
            directory=project_directory,
            target=target,
            select=select,
            exclude=exclude,
            variables=dict(variables),
            typed_options=_typed_options(
                project_directory=project_directory,
                target=target,
                select=select,
                exclude=exclude,
                variables=variables,
            ),
        )
        return command(request=request, **rest)

    return _decorated(wrapper, options)


def output_options(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of output to a command, which gets them as ``output``, an :class:`Output`.

    ``formats`` are the values of --format, the default first. Commands in answers and errors get the
    project's options that were typed.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(
            *, output_format: str, color: str, quiet: bool, verbose: bool, log_format: str, **rest: Any
        ) -> Any:
            request: ProjectRequest | None = rest.get("request")
            typed_options = TypedOptions() if request is None else request.typed_options
            output = Output(
                format=output_format,
                color=color,
                quiet=quiet,
                verbose=verbose,
                log_format=log_format,
                typed_options=typed_options,
            )
            try:
                return command(output=output, **rest)
            except ParquetryError as failure:
                failure.writer = typed_options.written
                raise

        choice = click.option(
            "--format",
            "output_format",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            envvar="PARQUETRY_FORMAT",
            help="Shape of the result on stdout.",
        )
        return _decorated(wrapper, (choice, *_OUTPUT))

    return decorate


def _decorated(
    command: Callable[..., Any], decorators: tuple[Callable[[Any], Any], ...]
) -> Callable[..., Any]:
    """Apply decorators so that their options are listed in this order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


_DIRECTORY = (
    click.option(
        "-p",
        "--project",
        "project_directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(),
        envvar="PARQUETRY_PROJECT",
        help="Directory with parquetry.yml; the current one by default.",
    ),
)

_TARGET = (
    click.option(
        *("-t", "--target"),
        envvar="PARQUETRY_TARGET",
        shell_complete=completion.targets,
        help="Target; the project's default_target by default.",
    ),
)

_SELECTION = (
    click.option(
        "-s",
        "--select",
        multiple=True,
        envvar="PARQUETRY_SELECT",
        shell_complete=completion.selectors,
        help="Only these tables: NAME, glob, tag:NAME, path:DIR, state:changed, git:REF; "
        "repeated is union, comma is intersection.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        envvar="PARQUETRY_EXCLUDE",
        shell_complete=completion.selectors,
        help="Not these tables; selectors as for --select.",
    ),
)

_VARIABLES = (
    click.option(
        "--var",
        "variables",
        type=_variable,
        metavar="NAME=VALUE",
        multiple=True,
        envvar="PARQUETRY_VAR",
        shell_complete=completion.variables,
        help="A variable of the project, NAME=VALUE.",
    ),
)

_OUTPUT = (
    click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        envvar="PARQUETRY_COLOR",
        help="Colours; NO_COLOR turns them off.",
    ),
    click.option(
        *("-q", "--quiet"),
        is_flag=True,
        type=SWITCH,
        envvar="PARQUETRY_QUIET",
        help="Only results and errors.",
    ),
    click.option(
        *("-v", "--verbose"),
        is_flag=True,
        type=SWITCH,
        envvar="PARQUETRY_VERBOSE",
        help="Print more on stderr.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        envvar="PARQUETRY_LOG_FORMAT",
        help="Format of the messages on stderr.",
    ),
)
