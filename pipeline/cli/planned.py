"""Commands that are not available yet: listed in the help, which says so, and refused in one line.

When a command is written, its line here goes and its module joins COMMANDS in pipeline/cli.
"""

import typer

from pipeline.errors import OperatorError

PLANNED = {
    "advise": "Which kind of counter fits.",
    "backup": "Copy the embedded data.",
    "restore": "Bring back a copy of the embedded data.",
}

PANEL = "Not available yet"


def register(app: typer.Typer) -> None:
    for name, purpose in PLANNED.items():
        _add(app, name, purpose)


def _add(app: typer.Typer, name: str, purpose: str) -> None:
    # Whatever arguments the finished command will take, the answer is the same sentence and not a
    # complaint about an option.
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}

    @app.command(
        name,
        help=f"{purpose} Not available yet in this version.",
        short_help=purpose,
        rich_help_panel=PANEL,
        context_settings=anything,
    )
    def refuse() -> None:
        raise OperatorError(f"{name} is not available yet in this version; see tally --help")
