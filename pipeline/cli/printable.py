"""Text of strangers for people's eyes: a counter may hold anything, also what moves a cursor."""

import sys
import unicodedata

# Controls, what is invisible or turns the writing direction, halves of surrogate pairs, private
# characters, and the two separators that break a line.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, length_max: int | None = None) -> str:
    r"""The text in one line, with what a terminal would obey or hide as \x1b, \n or \u202e.

    Longer than `length_max` characters, it is cut and ends with an ellipsis; an escape is never
    cut in two. Other characters stay as they are, a backslash too: it is for reading, `--json` is
    for programs.
    """
    kept = text if length_max is None else text[:length_max]
    shown = kept if kept.isascii() and kept.isprintable() else "".join(map(_shown, kept))
    return shown if len(kept) == len(text) else f"{shown}…"


def write_line(text: str) -> None:
    """One line on stdout; what its encoding lacks is escaped. Raises BrokenPipeError like print."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")
