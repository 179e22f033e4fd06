"""INSERT statements: where the head ends, which format the data has, where the data begins.

Pure. ClickHouse's rules: data starts after `VALUES` or after `FORMAT name` (and settings after it),
past blanks and past one line break. The head is lexed lazily: the data may be gigabytes.
"""

from collections.abc import Iterator

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.lexer import Token, tokens
from pipeline.embedded.clickhouse.sql_text import quoted
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement

_INPUT_PLACE = b"\x00input\x00"  # stands for `input(` until the data has a file; no SQL holds a NUL


def parse_insert(text: bytes) -> Statement | None:
    """The INSERT at the head of `text`, or None when it takes no data (INSERT … SELECT).

    Raises ClickHouseError for INFILE, and for a `;` where data should begin.
    """
    stream = tokens(text)
    _skip_target(stream)
    selects = False
    reads_input: Token | None = None
    previous: Token | None = None
    for token in stream:
        if selects and previous and previous.is_word(b"INPUT") and token.is_sign(b"("):
            reads_input = previous
        if token.is_sign(b"\x00"):
            raise errors.nul_refusal(token.start)
        names_a_table = previous is not None and previous.is_sign(b".")
        previous = token
        if token.is_word(b"SELECT"):
            selects = True
        if token.depth > 0 or names_a_table:
            continue
        if token.is_word(b"INFILE"):
            raise errors.refusal(
                errors.UNKNOWN_TYPE_OF_QUERY, "Query has infile and was send directly to server"
            )
        if token.is_word(b"VALUES") and not selects:
            return _load(text, text[: token.start], "Values", token.end)
        if token.is_word(b"FORMAT") and (reads_input or not selects):
            return _with_format(text, token, stream, reads_input)
    return None if selects else _load(text, text.rstrip(b"; \t\r\n"), "Values", len(text))


def with_data_in(statement: Statement, path: str) -> bytes:
    """The SQL of a LOAD or LOAD_SELECT, reading its data from the file at `path`."""
    if statement.kind is Kind.LOAD:
        head, settings = _split_settings(statement.sql)
        fmt = (statement.format or "Values").encode()
        source = b"FROM INFILE %s COMPRESSION 'none'" % quoted(path)
        return b"%s %s %s FORMAT %s" % (head, source, settings, fmt)
    place = b"file(%s, %s, " % (quoted(path), quoted(statement.format or "Values"))
    return statement.sql.replace(_INPUT_PLACE, place)


def _split_settings(sql: bytes) -> tuple[bytes, bytes]:
    """The head of an INSERT and its settings, which stand before FORMAT, after it, or both."""
    words = [one for one in tokens(sql) if one.depth == 0 and one.is_word(b"SETTINGS")]
    if not words:
        return sql, b""
    first, *others = words
    settings = sql[first.start :]
    for other in others:
        at = other.start - first.start
        settings = settings[:at] + b"," + b" " * 7 + settings[at + len(b"SETTINGS") :]
    return sql[: first.start], settings


def _skip_target(stream: Iterator[Token]) -> None:
    """Past INSERT INTO and the table's name, which may be any word, even `values` or `format`."""
    for token in stream:
        if not token.is_word(b"INSERT", b"INTO", b"TABLE", b"FUNCTION"):
            return


def _with_format(
    text: bytes, word: Token, stream: Iterator[Token], reads_input: Token | None
) -> Statement | None:
    name = next(stream, None)
    if name is None or name.kind != "word":
        return None
    head, end, settings = text[: word.start], name.end, b""
    following = next(stream, None)
    if following is not None and following.is_word(b"SETTINGS"):
        end = _settings_end(stream, following)
        settings = b" " + text[following.start : end]
    if reads_input is None:
        return _load(text, head, name.text.decode(), end, settings)
    opened = text.index(b"(", reads_input.end) + 1
    sql = head[: reads_input.start] + _INPUT_PLACE + head[opened:] + settings
    return Statement(Kind.LOAD_SELECT, sql, name.text.decode(), data_at=_data_at(text, end))


def _settings_end(stream: Iterator[Token], word: Token) -> int:
    """Where `SETTINGS a = 1, b = 2` ends: after a value that no comma follows."""
    end = word.end
    while True:
        name, equals, value = (next(stream, None) for _ in range(3))
        if name is None or equals is None or value is None or not equals.is_sign(b"="):
            return end
        end = value.end
        comma = next(stream, None)
        if comma is None or not comma.is_sign(b","):
            return end


def _load(text: bytes, head: bytes, fmt: str, end: int, settings: bytes = b"") -> Statement:
    return Statement(Kind.LOAD, head.rstrip() + settings, fmt, data_at=_data_at(text, end))


def _data_at(text: bytes, end: int) -> int:
    if text[end : end + 1] == b";":
        if text[end : end + 4096].strip(b"; \t\r\n"):
            raise errors.refusal(
                errors.SYNTAX_ERROR, "You have excessive ';' symbol before data for INSERT"
            )
        return len(text)
    while text[end : end + 1] in (b" ", b"\t", b"\f"):
        end += 1
    if text[end : end + 1] == b"\r":
        end += 1
    if text[end : end + 1] == b"\n":
        end += 1
    return end
