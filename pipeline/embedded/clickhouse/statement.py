"""The statement of a query text: how to run it, or why it is refused.

Pure. The engine comes with a client of its own, which takes several statements at once, and reads
and writes local files. A ClickHouse server does none of that for somebody on HTTP, nor does this.
"""

from itertools import pairwise

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.insert import parse_insert
from pipeline.embedded.clickhouse.lexer import Token, tokens
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement

_READ_HEADS = (b"SELECT", b"WITH", b"FROM")

# A query's id of the client's choosing is kept in log_comment, since the engine makes up its own.
CLIENT_QUERY_ID = b"if(Settings['log_comment'] != '', Settings['log_comment'], query_id)"


def parse(text: bytes, size_bytes_max: int) -> Statement:
    """The statement in `text`, of which only the head is looked at when data follows it.

    Raises ClickHouseError for an empty query, several statements, local files, or a query (data not
    counted) above `size_bytes_max`; whether the SQL makes sense is the engine's to say.
    """
    stream = tokens(text)
    first = next(stream, None)
    if first is None:
        raise errors.refusal(
            errors.SYNTAX_ERROR, "Syntax error: failed at position 1 (end of query): Empty query"
        )
    if first.is_word(b"INSERT"):
        load = parse_insert(text)
        if load is not None:
            _check_size(len(load.sql), size_bytes_max)
            return load
    _check_size(len(text.rstrip()), size_bytes_max)
    return _without_data(text, _single([first, *stream]))


def _without_data(text: bytes, parts: list[Token]) -> Statement:
    _refuse_outfile(parts)
    first, end = parts[0], parts[-1].end
    if first.is_word(b"SET") and not (len(parts) > 1 and parts[1].is_word(b"ROLE", b"DEFAULT")):
        return Statement(Kind.SET, text[:end])
    if first.is_word(b"USE"):
        return Statement(Kind.USE, text[:end])
    name, at = _format(parts)
    if first.is_word(b"KILL"):
        return Statement(Kind.OTHER, _kill_by_client_query_id(text[:end], parts), name)
    if not (first.is_word(*_READ_HEADS) or first.is_sign(b"(")) or _inserts(parts):
        return Statement(Kind.OTHER, text[:end], name)
    if name is None:
        return Statement(Kind.READ, text[:end])
    return Statement(Kind.READ, text[: parts[at].start], name, text[parts[at + 1].end : end])


def _inserts(parts: list[Token]) -> bool:
    """Whether a statement that begins like a reading one, `WITH … INSERT INTO …`, is none."""
    return any(one.is_word(b"INSERT") and two.is_word(b"INTO") for one, two in pairwise(parts))


def _check_size(size_bytes: int, size_bytes_max: int) -> None:
    if 0 < size_bytes_max < size_bytes:
        raise errors.refusal(
            errors.SYNTAX_ERROR,
            f"Syntax error: failed at position {size_bytes_max}: Max query size exceeded "
            "(can be increased with the `max_query_size` setting)",
        )


def _single(parts: list[Token]) -> list[Token]:
    """The tokens before a closing `;`."""
    for token in parts:
        if token.is_sign(b"\x00"):
            raise errors.nul_refusal(token.start)
    cut = next((index for index, token in enumerate(parts) if token.is_sign(b";")), len(parts))
    if any(not token.is_sign(b";") for token in parts[cut:]):
        raise errors.refusal(
            errors.SYNTAX_ERROR,
            "Syntax error (Multi-statements are not allowed): "
            f"failed at position {parts[cut].end} (end of query)",
        )
    if cut == 0:
        raise errors.refusal(
            errors.SYNTAX_ERROR, "Syntax error: failed at position 1 (;): Empty query"
        )
    return parts[:cut]


def _refuse_outfile(parts: list[Token]) -> None:
    for one, two in pairwise(parts):
        if one.depth == 0 and one.is_word(b"INTO") and two.is_word(b"OUTFILE"):
            raise errors.refusal(errors.INTO_OUTFILE_NOT_ALLOWED, "INTO OUTFILE is not allowed")


def _format(parts: list[Token]) -> tuple[str | None, int]:
    """The statement's FORMAT and the index of that word; an alias called format is not one."""
    for index in range(len(parts) - 2, -1, -1):
        word, name = parts[index], parts[index + 1]
        if word.depth > 0 or not word.is_word(b"FORMAT") or name.kind != "word":
            continue
        if index + 2 == len(parts) or parts[index + 2].is_word(b"SETTINGS"):
            return name.text.decode(), index
    return None, 0


def _kill_by_client_query_id(text: bytes, parts: list[Token]) -> bytes:
    """KILL QUERY with `query_id` meaning the id that the client gave or was told."""
    pieces, at = [], 0
    for token in parts:
        if token.is_word(b"QUERY_ID"):
            pieces += [text[at : token.start], CLIENT_QUERY_ID]
            at = token.end
    return b"".join([*pieces, text[at:]])
