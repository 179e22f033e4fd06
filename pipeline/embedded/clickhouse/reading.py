"""What somebody may send who may only read: the first of two belts. Pure.

The second is the engine's own `readonly = 1`, which refuses every statement that writes and every
change of a setting. Trials with chDB 4.4 showed what it lets through, and so what must not get
there:
- KILL QUERY, BACKUP and CHECK TABLE;
- the function `file('/path')`, and DESCRIBE of any table function, which both open files;
- the table function `python(…)`, which looks into this process, and `cluster(…)`, `eval(…)`;
- EXISTS of a file's path, and a file that somebody else has read by its path, as if it were a
  table: the engine remembers it as one;
- SETTINGS in a subquery; formats that read or write files which a setting in the URL names.

What cannot be lexed here as the engine does, it refuses: typographic quotes and spaces, which the
engine takes for plain ones, and dollar quotes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.lexer import Token, tokens
from pipeline.embedded.clickhouse.request import Request
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement

_HEADS = (b"SELECT", b"WITH", b"FROM", b"SHOW", b"DESCRIBE", b"DESC", b"EXPLAIN", b"EXISTS")

TABLE_FUNCTIONS = frozenset(
    {
        *("numbers", "numbers_mt", "generate_series", "generateSeries", "primes"),
        *("values", "null", "view", "merge", "generateRandom"),
        # As a table function the engine refuses it to readers; as a function everybody needs it.
        "format",
    }
)
"""Table functions for readers; the engine's others are refused, also those of later versions."""

_FUNCTIONS_REFUSED = frozenset(
    {
        *("file", "catboostevaluate", "hascolumnintable"),
        *("aiclassify", "aiembed", "aiextract", "aifilter", "aigenerate", "airedact"),
        *("aisimilarity", "aitranslate"),
    }
)

SETTINGS = frozenset(
    {
        *("max_threads", "max_execution_time", "max_memory_usage", "max_block_size"),
        *("max_result_rows", "max_result_bytes", "max_rows_to_read", "max_bytes_to_read"),
        *("result_overflow_mode", "read_overflow_mode", "timeout_overflow_mode"),
        *("max_query_size", "log_comment", "session_timezone", "use_client_time_zone"),
        *("final", "limit", "offset", "extremes", "join_use_nulls", "group_by_use_nulls"),
        *("date_time_output_format", "output_format_json_quote_64bit_integers"),
        *("output_format_json_quote_denormals", "output_format_json_named_tuples_as_objects"),
        *("output_format_arrow_string_as_string", "output_format_arrow_compression_method"),
        *("output_format_arrow_low_cardinality_as_dictionary",),
        *("output_format_native_use_flattened_dynamic_and_json_serialization",),
        *("output_format_native_write_json_as_string", "output_format_pretty_color"),
    }
)
"""Settings of the URL for readers: none names a file or an address, or loosens anything."""

# After the word SETTINGS these show that it is a name of a column, not a clause.
_AFTER_A_NAME = (b"FROM", b"AS", b"IN", b"NOT", b"IS", b"LIKE", b"ILIKE", b"AND", b"OR")
_BEFORE_A_TABLE = (
    *(b"FROM", b"JOIN", b"IN", b"TABLE", b"VIEW", b"DICTIONARY", b"DATABASE"),
    *(b"DESCRIBE", b"DESC", b"EXISTS", b"CREATE"),
)


_CLAUSES = (
    *(b"SELECT", b"FROM", b"JOIN", b"PREWHERE", b"WHERE", b"GROUP", b"HAVING", b"WINDOW"),
    *(b"QUALIFY", b"ORDER", b"LIMIT", b"OFFSET", b"UNION", b"EXCEPT", b"INTERSECT", b"WITH"),
)
"""Words that begin a clause, for what names tables and what does not."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The check, for an engine with these table functions."""

    refused: frozenset[str]

    @classmethod
    def of(cls, table_functions: Iterable[str]) -> "Reading":
        allowed = {name.lower() for name in TABLE_FUNCTIONS}
        others = {name.lower() for name in table_functions} - allowed
        return cls(frozenset(others | _FUNCTIONS_REFUSED))

    def check(self, request: Request, statement: Statement) -> None:
        """Raises ClickHouseError for what is not for readers."""
        if request.tables:
            raise _readonly("External tables are not for who may only read")
        _check_settings(request.settings)
        if statement.kind not in {Kind.READ, Kind.OTHER}:
            raise _readonly("Cannot execute query in readonly mode")
        parts = list(tokens(statement.sql + b"\n" + statement.tail))
        if not parts or not (parts[0].is_word(*_HEADS) or parts[0].is_sign(b"(")):
            raise _readonly("Cannot execute query in readonly mode")
        if _shows_settings(parts):
            # There the word is no clause.
            parts = [one for one in parts if one.depth or not one.is_word(b"SETTINGS")]
        for at, token in enumerate(parts):
            self._check_token(parts, at, token)
        if any(map(_is_listed_file, parts, _clauses(parts))):
            raise _readonly("Files are not for who may only read")

    def _check_token(self, parts: Sequence[Token], at: int, token: Token) -> None:
        before = parts[at - 1] if at else None
        after = parts[at + 1] if at + 1 < len(parts) else None
        if token.kind in {"heredoc", "unclosed"} or (token.kind == "sign" and _is_odd(token.text)):
            raise _readonly(f"{token.text[:8]!r} outside of quotes is not for who may only read")
        if token.kind in {"word", "quoted", "number"} and after and after.is_sign(b"("):
            name = token.text.strip(b'`"').decode("utf-8", "replace")
            # An escape in a quoted name could spell another; no function needs one.
            if name.lower() in self.refused or "\\" in name or token.kind == "number":
                raise _readonly(f"The function {name} is not for who may only read")
        if _names_a_file(token, before):
            raise _readonly("Files are not for who may only read")
        if token.is_word(b"SETTINGS") and _is_clause(before, after):
            raise _readonly("SETTINGS in a query are not for who may only read")
        if token.is_word(b"OUTFILE", b"INFILE") or _is_insert(token, after):
            raise _readonly("Cannot execute query in readonly mode")


def _is_odd(sign: bytes) -> bool:
    """Whether the engine may read the sign, or what follows it, otherwise than the lexer here."""
    return sign >= b"\x7f" or sign in (b"$", b"'", b'"', b"`", b"\\")


def _names_a_file(token: Token, before: Token | None) -> bool:
    if before is None:
        return False
    if token.kind == "quoted":
        # A column may be called "likes/s", a table of ours never; an escape could spell a slash.
        is_table = before.is_word(*_BEFORE_A_TABLE) or before.is_sign(b".") or before.is_sign(b",")
        return is_table and (b"/" in token.text or b"\\" in token.text)
    if token.kind == "string":
        return before.is_word(*_BEFORE_A_TABLE)
    # {name:Identifier} would bring a quoted name by another way.
    return token.is_word(b"IDENTIFIER") and before.is_sign(b":")


def _clauses(parts: Sequence[Token]) -> Iterator[tuple[Token | None, bytes]]:
    """For each token: the one before it, and the clause of its own depth that it is in."""
    clauses: list[bytes] = []
    before = None
    for token in parts:
        del clauses[token.depth + 1 :]
        clauses.extend([b""] * (token.depth + 1 - len(clauses)))
        if token.is_word(*_CLAUSES):
            clauses[-1] = token.text.upper()
        yield before, clauses[-1]
        before = token


def _is_listed_file(token: Token, place: tuple[Token | None, bytes]) -> bool:
    """Whether it is a text where another table is named: FROM a, '/path'."""
    before, clause = place
    is_next = before is not None and before.is_sign(b",")
    return token.kind == "string" and is_next and clause in (b"FROM", b"JOIN")


def _shows_settings(parts: Sequence[Token]) -> bool:
    words = [one.text.upper() for one in parts[:3] if one.kind == "word"]
    return words[:2] == [b"SHOW", b"SETTINGS"] or words == [b"SHOW", b"CHANGED", b"SETTINGS"]


def _is_clause(before: Token | None, after: Token | None) -> bool:
    if before is not None and before.is_sign(b"."):
        return False
    return (
        after is not None and after.kind in {"word", "quoted"} and not after.is_word(*_AFTER_A_NAME)
    )


def _is_insert(token: Token, after: Token | None) -> bool:
    return token.is_word(b"INSERT") and after is not None and after.is_word(b"INTO")


def _check_settings(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if name == "readonly" and value in {"1", "2"}:
            continue  # It is so already.
        if name not in SETTINGS:
            raise _readonly(f"Cannot modify '{name}' setting in readonly mode")


def _readonly(sentence: str) -> ClickHouseError:
    return errors.refusal(errors.READONLY, f"default: {sentence}")
