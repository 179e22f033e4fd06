"""SQL cut into tokens, just well enough to find where statements, clauses and inline data begin.

Works on bytes, because a query may carry any bytes in its literals and any format in its data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(rb"(?:\s+|--[^\n]*|\#[ !][^\n]*|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_TOKEN = re.compile(
    rb"""
      (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
    | (?P<heredoc>\$(?P<tag>[A-Za-z0-9_]*)\$.*?\$(?P=tag)\$)
    | (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
    | (?P<number>[0-9][A-Za-z0-9_.]*)
    | (?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_OPENING = (b"(", b"[", b"{")
_CLOSING = (b")", b"]", b"}")


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `depth` counts the brackets around it, a bracket itself having its outer depth."""

    kind: str
    text: bytes
    start: int
    end: int
    depth: int

    def is_word(self, *words: bytes) -> bool:
        """Whether this is one of the given (upper-case) unquoted words."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, sign: bytes) -> bool:
        return self.kind == "sign" and self.text == sign


def tokens(sql: bytes) -> Iterator[Token]:
    """Tokens of `sql` in order, without spaces and comments; lazy, so data costs nothing."""
    position, depth = 0, 0
    while True:
        skipped = _SKIPPED.match(sql, position)
        if skipped is not None:
            position = skipped.end()
        found = _TOKEN.match(sql, position)
        if found is None:
            return
        kind, text = found.lastgroup or "sign", found.group()
        if found.group("heredoc") is not None:
            kind = "heredoc"
        if kind == "sign" and text in _CLOSING:
            depth = max(0, depth - 1)
        yield Token(kind, text, found.start(), found.end(), depth)
        if kind == "sign" and text in _OPENING:
            depth += 1
        position = found.end()
