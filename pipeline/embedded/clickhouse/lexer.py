"""SQL cut into tokens, just well enough to find where statements, clauses and inline data begin.

Works on bytes, because a query may carry any bytes in its literals and any format in its data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(rb"(?:\s+|--[^\n]*|//[^\n]*|\#[ !][^\n]*)+")
_COMMENT_EDGE = re.compile(rb"/\*|\*/")
_TOKEN = re.compile(
    rb"""
      (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
    | (?P<heredoc>\$[A-Za-z0-9_]*\$)
    | (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
    | (?P<number>[0-9][A-Za-z0-9_.]*)
    | (?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_QUOTES = (b"'", b'"', b"`")
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
        position = _skip(sql, position)
        found = _TOKEN.match(sql, position)
        if found is None:
            return
        kind, end = _whole(sql, found)
        text = sql[position:end]
        if kind == "sign" and text in _CLOSING:
            depth = max(0, depth - 1)
        yield Token(kind, text, position, end, depth)
        if kind == "sign" and text in _OPENING:
            depth += 1
        position = end


def _whole(sql: bytes, found: re.Match[bytes]) -> tuple[str, int]:
    """The kind of a token and where it ends, once its end was looked for.

    Of a quote that nobody closes the rest of the text is inside, as in the engine, which refuses
    it. To look on after it would find the next one unclosed as well, and take its time for each.
    """
    kind = found.lastgroup or "sign"
    if kind == "heredoc":
        mark = found.group()
        close = sql.find(mark, found.end())
        return (kind, close + len(mark)) if close >= 0 else ("sign", found.start() + 1)
    if kind == "sign" and found.group() in _QUOTES:
        return "unclosed", len(sql)
    return kind, found.end()


def _skip(sql: bytes, position: int) -> int:
    """Where the next token begins, past spaces and comments."""
    while True:
        if sql.startswith(b"/*", position):
            position = _comment_end(sql, position)
        elif skipped := _SKIPPED.match(sql, position):
            position = skipped.end()
        else:
            return position


def _comment_end(sql: bytes, start: int) -> int:
    """The end of the comment at `start`: comments nest, as they do in the engine."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == b"/*" else -1
        if depth == 0:
            return edge.end()
    return len(sql)
