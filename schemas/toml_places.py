"""Where a key stands in a TOML text, which Python's reader does not tell, and what it may mean."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator

_BARE_OR_QUOTED = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_BARE_OR_QUOTED}(?:\s*\.\s*{_BARE_OR_QUOTED})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_KEY_IN_LINE = re.compile(rf"[{{,]\s*({_DOTTED})\s*=")


def line_of(text: str, place: tuple[str, ...]) -> int:
    """The line, from 1, of the key at `place`, or of the nearest table around it, or else 1.

    The text is TOML that was read before. Keys in inline tables are found by their line.
    """
    best, best_length = 1, 0
    for number, found in _keys(text):
        length = _common(found, place)
        # A longer match is nearer; a key that goes past the place on another branch is none.
        if length > best_length and (length == len(found) or length == len(place)):
            best, best_length = number, length
    return best


def nearest(key: str, known: Iterable[str]) -> str:
    """Ends a sentence about an unknown key: with the key that was meant, or with all there are."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(names)}"


def is_header(line: str) -> bool:
    """Whether a line begins a table: `[name]` or `[[name]]`."""
    return _HEADER.fullmatch(line.rstrip("\r\n")) is not None


def place_in(document: object, location: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the location that are in the document: pydantic adds branches of unions to it."""
    place: list[str] = []
    for part in location:
        if not isinstance(document, dict):
            break
        if part in document:
            document = document[part]
            place.append(part)
    return tuple(place)


def syntax_reason(file: str, text: str, message: str) -> str:
    """The line for people, with file and line, of what Python's reader says of a broken text."""
    reason, _, place = message.rpartition(" (at ")
    match = re.match(r"line ([0-9]+)", place)
    line = match[1] if match else max(len(text.splitlines()), 1)
    return f"{file}:{line}: not TOML: {reason or message}"


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _parts(header[1])
            yield number, table
        elif assignment := _ASSIGNMENT.match(line):
            key = (*table, *_parts(assignment[1]))
            yield number, key
            for inner in _KEY_IN_LINE.finditer(line, assignment.end()):
                yield number, (*key, *_parts(inner[1]))


def _parts(dotted: str) -> tuple[str, ...]:
    parts = []
    try:
        level: object = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        # It only looks like a key: a line of a text of several lines.
        return (dotted,)
    while isinstance(level, dict):
        name, level = next(iter(level.items()))
        parts.append(name)
    return tuple(parts)


def _common(found: tuple[str, ...], place: tuple[str, ...]) -> int:
    length = 0
    for one, other in zip(found, place, strict=False):
        if one != other:
            break
        length += 1
    return length
