"""The command `tally`: its frame. Each command is a module here with `register(app)`.

Modules are imported to learn their options, so heavy packages (chdb, faust, pyarrow, clients) are
imported inside their functions: `tally --help` and completion stay quick.
"""

import importlib
import logging
import os
import sys
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pipeline import __version__
from pipeline.cli.flags import Command, Group
from pipeline.cli.output import (
    console,
    print_error,
    print_traceback,
    stdout_is_gone,
)
from pipeline.cli.without_pandas import do_without_pandas
from pipeline.errors import TallyError, TryAgainError
from pipeline.garbage import collect_seldom

PANELS: dict[str, tuple[str, ...]] = {
    "Run it": ("demo", "up", "worker", "serve"),
    "Count": ("produce", "load", "tail"),
    "Ask": ("count", "unique", "top", "rank", "trending", "explain"),
    "Correct": ("dead_letters", "adjust", "reset", "history"),
    "Look after it": (
        "status",
        "doctor",
        "verify",
        "replay",
        "builds",
        "backup",
        "restore",
        "accept_log",
        "exchange",
    ),
    "Set it up": ("advise", "rules", "partitions", "shard", "token", "migrate", "schema"),
}
"""The modules of commands by what people do with them: so the help and the reference list them."""

COMMANDS = tuple(name for names in PANELS.values() for name in names)

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


class _Group(Group):
    def invoke(self, ctx: Any) -> Any:  # the base names a private class of Typer
        """Typer ends quietly on any broken pipe; only stdout's is nobody's fault."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if stdout_is_gone():
                raise typer.Exit(EXIT_ERROR) from error
            raise TryAgainError("a server closed its connection: try again") from error


def build_app(modules: Collection[str] = COMMANDS) -> typer.Typer:
    """All commands of this version, or those of some modules, which are imported."""
    app = typer.Typer(
        name="tally",
        cls=_Group,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    for panel, names in PANELS.items():
        for name in names:
            if name not in modules:
                continue
            commands, groups = len(app.registered_commands), len(app.registered_groups)
            importlib.import_module(f"pipeline.cli.{name}").register(app)
            for command in app.registered_commands[commands:]:
                command.rich_help_panel = panel
                _plain(command)
            for group in app.registered_groups[groups:]:
                group.rich_help_panel = panel
                group.cls = Group
                if group.typer_instance is not None:
                    list(map(_plain, group.typer_instance.registered_commands))
    return app


def _plain(command: Any) -> None:
    """The class of commands here, unless it has one of its own."""
    if command.cls is TyperCommand:
        command.cls = Command


def _print_version(wanted: bool) -> None:
    if wanted:
        console().print(f"tally {__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it, exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; TALLY_DEBUG=1 does too.")
    ] = False,
) -> None:
    """Tally counts things that happen too often for one row.

    Begin with `tally demo`, or with `tally up` for events of your own. `tally COMMAND --help`
    explains a command, with an example.
    """
    # `run` takes --debug from wherever it stands; it is declared here to be in the help.


def _debug_wanted(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether tracebacks are wanted, and the arguments without `--debug`.

    It is accepted in any place before `--`, since people add it at the end of the line that failed.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [a for i, a in enumerate(arguments) if a != "--debug" or i > end]
    from_environment = os.environ.get("TALLY_DEBUG", "").lower() in {"1", "true", "yes", "on"}
    return from_environment or len(kept) < len(arguments), kept


def run(arguments: Sequence[str], app: typer.Typer | None = None) -> int:
    """Runs one command line and returns its exit code: 0, 1 for an error, 2 for wrong usage.

    Errors are one line on stderr, with a traceback before it only if asked for. Never raises but
    for what stops the interpreter.
    """
    debug, kept = _debug_wanted(arguments)
    if debug:
        # For the processes this one starts, whose output should be as talkative.
        os.environ["TALLY_DEBUG"] = "1"
    else:
        _hush_clients()
    try:
        app = app or build_app(_needed(kept))
        result = app(kept or ["--help"], prog_name="tally", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 RUF100  the last stop: it becomes one line
        code = _report(error, debug)
    return EXIT_ERROR if stdout_is_gone() and code == 0 else code


def _needed(arguments: Sequence[str]) -> Collection[str]:
    """The modules without which these arguments are not understood: one, if a command is first."""
    named = arguments[0].replace("-", "_") if arguments else ""
    return (named,) if named in COMMANDS else COMMANDS


def _hush_clients() -> None:
    """What clients log as well as raise is not printed beside the one line that says it.

    Where a process keeps a log, as workers do, these lines go on to be in it.
    """
    for name in ("clickhouse_connect", "urllib3"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())


def _report(error: Exception, debug: bool) -> int:
    if isinstance(error, typer.TyperException):
        asked = getattr(error, "ctx", None)  # What is wrong of a command is in its own help.
        print_error(
            f"{error.format_message()} (see {asked.command_path if asked else 'tally'} --help)"
        )
        return error.exit_code
    if isinstance(error, typer.Abort):
        return EXIT_INTERRUPTED
    if debug:
        print_traceback(error)
    if isinstance(error, TallyError):
        print_error(str(error))
    else:
        hint = "" if debug else "; run again with --debug for the traceback"
        print_error(f"internal error: {type(error).__name__}: {error}{hint}")
    return EXIT_ERROR


def main() -> None:
    """The console script. Ends the process."""
    collect_seldom()
    do_without_pandas()
    sys.exit(run(sys.argv[1:]))
