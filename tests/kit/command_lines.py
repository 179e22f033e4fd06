"""Command lines in pages: found, and parsed as the command line itself parses them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import typer

from pipeline.cli import build_app

_BLOCK = re.compile(
    r"^```(\w*)[^\n]*\n(.*?)^```|((?:^    [^\n]*\n|^\n)+)", re.DOTALL | re.MULTILINE
)
_PROMPT = re.compile(r"^\w*\$ ")
_ASSIGNMENT = re.compile(r"^\w+=")
_REMARK = re.compile(r"\s#(?:\s.*)?$")
_SPAN = re.compile(r"`(tally [^`]+)`")
_OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
NO_FILE = "No such file or directory"
_SHELL = frozenset({"", "console", "bash", "sh"})


class NotACommandError(Exception):
    """Nobody could run this."""


def lines_shown(page: str) -> Iterator[list[str]]:
    """The arguments of every `tally` in the page's blocks, without environment and pipes.

    In a block with prompts only lines with one are commands; the rest is what they print.
    """
    for match in _BLOCK.finditer(page):
        if match[1] is not None and match[1] not in _SHELL:
            continue
        lines = [line.strip() for line in (match[2] or match[3]).splitlines()]
        prompted = [line for line in lines if _PROMPT.match(line)]
        for line in prompted or lines:
            yield from _tallies(_REMARK.sub("", _PROMPT.sub("", line)))


def _tallies(line: str) -> Iterator[list[str]]:
    if not re.search(r"(?:^|[\s/])tally ", line):
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # Quotes that go on in the next line: SQL, or a program.
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word and set(word) <= set("|;&<>"):
            found = _arguments(command)
            if found is not None:
                yield found
            command = []
        else:
            command.append(word)


def _arguments(command: Sequence[str]) -> list[str] | None:
    words = list(command)
    while words and (_ASSIGNMENT.match(words[0]) or words[0] == "export"):
        words.pop(0)
    if words and (words[0] == "tally" or words[0].endswith("/tally")):
        return words[1:]
    return None


def spans_shown(page: str) -> Iterator[str]:
    """The command lines that sentences mention as code; these may name what is to be put in."""
    text = _BLOCK.sub("\n", page)
    for span in _SPAN.findall(text):
        yield " ".join(span.split())


@cache
def _root() -> Any:
    # Typer's own classes for commands are private to it.
    return typer.main.get_command(build_app())


def parse(arguments: Sequence[str]) -> None:
    """Parses them as `tally` would and runs nothing. Raises NotACommandError saying why not."""
    words = [word for word in arguments if word != "--debug"]
    command, name = _root(), "tally"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            raise NotACommandError(f"no command {name!r}")
        command = command.commands[name]
    if "--help" in words or "--version" in words:
        return
    if hasattr(command, "commands"):
        check_options(command, words)
        return
    try:
        command.make_context(name, words).close()
    except typer.TyperException as error:
        if NO_FILE in error.format_message():
            return  # The reader has it.
        raise NotACommandError(error.format_message()) from error


def check_span(span: str) -> None:
    """Whether a mentioned command exists and has the options; their values may be anything."""
    words = re.sub(r"[\[\]…]", " ", span).split()[1:]
    command = _root()
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            raise NotACommandError(f"no command {name!r}")
        command = command.commands[name]
    check_options(command, words)


def check_options(command: Any, words: Sequence[str]) -> None:
    """Raises NotACommandError for the first option that the command does not have."""
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for name in _OPTION.findall(" ".join(words)):
        if name not in known | {"--help", "--debug"}:
            raise NotACommandError(f"no option {name}")
