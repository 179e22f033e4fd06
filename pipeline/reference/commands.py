"""docs/reference/commands.md: every command with its arguments, options and examples."""

import enum
from collections.abc import Iterator
from typing import Any

import typer

from pipeline.cli import PANELS, build_app
from pipeline.reference.markdown import cell, code, page, table

TITLE = "Commands"
INTRODUCTION = """\
`--help` after any of them says the same in a terminal. Addresses and the like are
[settings](settings.md) of the environment. What holds for all of them:
"""
EXIT_1 = """\
an error: one line on stderr that says what to do, no traceback; also where a command compares or
judges (`status`, `doctor`, `verify`, `replay --check`) and the answer is no"""
EXIT_2 = """\
wrong usage: an unknown command or option, a missing argument, a value that is none; one line on
stderr"""
JSON = """\
one JSON document on stdout and nothing else; `tally tail --json` prints one on each line. `demo`,
`up`, `worker` and `serve` have none: they run until they are stopped, and what they print is for
people (`tally up` writes its addresses to `addresses.json`)"""
COMPLETION = """\
`tally --install-completion` adds it to the shell you are in (bash, zsh, fish, PowerShell), from its
next start on; `tally --show-completion bash` prints it instead"""
HOLDS_FOR_ALL = (
    ("exit code 0", "it did what was asked"),
    ("exit code 1", EXIT_1),
    ("exit code 2", EXIT_2),
    ("exit code 130", "Ctrl-C, where that is not the ordinary end of the command"),
    ("`--json`", JSON),
    ("`--debug`", "tracebacks, wherever it stands in the line; `TALLY_DEBUG=1` does the same"),
    ("colours and bars", "on terminals only; `NO_COLOR=1` turns colours off"),
    ("completion", COMPLETION),
    ("times", "`2026-11-16T08:00`, or with an offset; UTC without one"),
    ("durations", "`30s`, `10m`, `24h`, `7d`"),
)
KINDS = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "path": "path",
    "FileBinaryRead": "path",
}


def commands_page() -> str:
    """The page. Imports every command's module; raises nothing."""
    holds = table(("what", "holds"), HOLDS_FOR_ALL)
    return page(TITLE, INTRODUCTION, *holds, *_global_options(), *_panels())


def walk(app: typer.Typer | None = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by its words, in no order: `(("token", "add"), ...)`."""
    # Typer's own classes for commands are private to it, hence Any.
    root: Any = typer.main.get_command(app or build_app())
    yield from _leaves((), root)


def _leaves(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner: dict[str, Any] | None = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, each in inner.items():
        yield from _leaves((*words, name), each)


def _global_options() -> Iterator[str]:
    root: Any = typer.main.get_command(build_app())
    yield "## tally"
    yield ""
    yield from _parameters(root, ("tally",))


def _panels() -> Iterator[str]:
    commands = dict(walk())
    for panel, modules in PANELS.items():
        yield f"## {panel}"
        yield ""
        for module in modules:
            first = module.replace("_", "-")
            for words, command in commands.items():
                if words[0] == first:
                    yield from _command(words, command)


def _command(words: tuple[str, ...], command: Any) -> Iterator[str]:
    yield f"### tally {' '.join(words)}"
    yield ""
    yield "```text"
    yield " ".join(["tally", *words, *_usage(command)])
    yield "```"
    yield ""
    yield from command.help.strip().splitlines()
    yield ""
    yield from _parameters(command, words)


def _usage(command: Any) -> Iterator[str]:
    """What follows the command's words, in brackets where it may be left out."""
    if any(each.param_type_name == "option" for each in command.params):
        yield "[OPTIONS]"
    for each in command.params:
        if each.param_type_name == "argument":
            name = each.metavar or each.name.upper()
            yield name if each.required else f"[{name}]"


def _parameters(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    context = command.make_context(words[-1], [], resilient_parsing=True)
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    yield from table(
        ("argument or option", "takes", "default", "meaning"),
        (
            (_names(each), _takes(each, context), _default(each), (each.help or "").strip())
            for each in shown
        ),
    )


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name.upper())
    return ", ".join(map(code, (*parameter.opts, *parameter.secondary_opts)))


def _takes(parameter: Any, context: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar and parameter.param_type_name != "argument":
        kind = code(parameter.metavar)
    else:
        # Choices are told as one word with bars between.
        told = parameter.display_type(context).split()[0].strip("<>").removeprefix("list")
        names = told.strip("[]").split("|")
        kind = ", ".join(KINDS.get(name, code(name)) for name in names)
    low, high = parameter.min, parameter.max
    if high is not None:
        kind += f", {low} to {high}"
    elif low is not None:
        kind += f", {low} or more"
    several = getattr(parameter, "multiple", False) or parameter.nargs != 1
    return kind + (", repeatable" if several else "")


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value == "":
        return ""
    return code(cell(str(value.value if isinstance(value, enum.Enum) else value)))
