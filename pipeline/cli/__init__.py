"""The command `tally`: its frame. Each command is a module here with `register(app)`.

Modules are imported to learn their options, so heavy packages (chdb, faust, pyarrow, clients) are
imported inside their functions: `tally --help` and completion stay quick.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pipeline import __version__
from pipeline.cli import planned
from pipeline.cli.output import (
    console,
    print_error,
    print_traceback,
    stdout_is_gone,
)
from pipeline.cli.without_pandas import do_without_pandas
from pipeline.errors import TallyError, TryAgainError

# fmt: off
COMMANDS = (
    "demo", "up", "worker", "produce", "count", "status", "accept_log", "migrate", "schema",
    "dead_letters", "explain", "tail", "rules", "partitions", "doctor", "top", "rank", "unique",
    "trending", "shard", "load", "replay", "builds", "exchange",
    "adjust", "reset", "history", "verify", "serve", "token",
)
# fmt: on

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:  # the base names a private class of Typer
        """Typer ends quietly on any broken pipe; only stdout's is nobody's fault."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if stdout_is_gone():
                raise typer.Exit(EXIT_ERROR) from error
            raise TryAgainError("a server closed its connection: try again") from error


def build_app() -> typer.Typer:
    """All commands of this version, and those that are planned. Imports their modules."""
    app = typer.Typer(
        name="tally",
        cls=_Group,
        rich_markup_mode="markdown",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    for name in COMMANDS:
        importlib.import_module(f"pipeline.cli.{name}").register(app)
    planned.register(app)
    return app


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
    """Tally counts things that happen too often for one row."""
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
    try:
        result = (app or build_app())(kept or ["--help"], prog_name="tally", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 RUF100  the last stop: it becomes one line
        code = _report(error, debug)
    return EXIT_ERROR if stdout_is_gone() and code == 0 else code


def _report(error: Exception, debug: bool) -> int:
    if isinstance(error, typer.TyperException):
        print_error(f"{error.format_message()} (see tally --help)")
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
    do_without_pandas()
    sys.exit(run(sys.argv[1:]))
