"""One query, run from start to end in one thread."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.blocks import unblocked
from pipeline.embedded.clickhouse.compression import decoded
from pipeline.embedded.clickhouse.counts import Counts
from pipeline.embedded.clickhouse.insert import with_data_in
from pipeline.embedded.clickhouse.pipe import Pipe
from pipeline.embedded.clickhouse.reading import Reading
from pipeline.embedded.clickhouse.request import Request
from pipeline.embedded.clickhouse.scope import scoped
from pipeline.embedded.clickhouse.sessions import Session
from pipeline.embedded.clickhouse.spool import Spool
from pipeline.embedded.clickhouse.statement import parse
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement
from pipeline.embedded.clickhouse.write_gate import WriteGate

# Far above any INSERT's head, so that the statement is always whole within the first piece of text.
HEAD_BYTES_MAX = 4 << 20
_IN_FILE = " (in file/uri %s)"
_LEAVE_NOTHING = frozenset((Kind.READ, Kind.LOAD, Kind.LOAD_SELECT))
_NEVER_WRITES = frozenset({Kind.READ, Kind.SET, Kind.USE})


@dataclass(frozen=True, slots=True)
class Answer:
    """How a query ended: `body` holds what did not go through the pipe."""

    format: str
    counts: Counts
    body: bytes = b""


class Execution:
    """A query with all it needs. `run` is called once, in a thread of its own.

    The event loop looks at `pipe`, `begun` and `statement` meanwhile; the statement is None at
    first. In the end `is_clean` says whether the statement left its connection as it was.
    """

    def __init__(
        self,
        request: Request,
        spool: Spool,
        session: Session,
        folder: Path,
        reading: Reading | None = None,
        *,
        gate: WriteGate | None = None,
    ) -> None:
        """With `reading`, the query is one of somebody who may only read. One that writes goes
        through the gate."""
        self.request = request
        self.pipe = Pipe()
        self.statement: Statement | None = None
        self.begun = False
        self.is_clean = False
        self._spool = spool
        self._session = session
        self._folder = folder
        self._reading = reading
        self._gate = gate or WriteGate()

    @property
    def format(self) -> str:
        """The answer's format; the request's until the statement has been read."""
        named = None if self.statement is None else self.statement.format
        return named or self.request.default_format

    @property
    def only_reads(self) -> bool:
        """Whether nothing is lost when the query is stopped; False until the statement was read."""
        return self.statement is not None and self.statement.kind is Kind.READ

    def run(self) -> Answer:
        """Blocks until the query is done; raises ClickHouseError. Ends the pipe in any case."""
        self.begun = True
        try:
            text, rest = self._text()
            statement = parse(text, self.request.query_size_bytes_max)
            self.statement = statement
            if self._reading is not None:
                self._reading.check(self.request, statement)
            is_reader = self._reading is not None
            with (
                scoped(self._session, self.request, statement, is_reader=is_reader) as scoped_one,
                nullcontext() if statement.kind in _NEVER_WRITES else self._gate.writing(),
            ):
                answer = self._dispatch(scoped_one, text, rest)
            self.is_clean = statement.kind in _LEAVE_NOTHING
            return answer
        finally:
            self.pipe.close_writing()

    def _text(self) -> tuple[bytes, Iterator[bytes]]:
        """The query's first bytes, enough to hold any head, and the pieces after them."""
        pieces = decoded(self.request.encoding, self._spool.reader())
        if self.request.native_in:
            pieces = unblocked(pieces)
        if self.request.query:
            pieces = chain((self.request.query + b"\n",), pieces)
        text = bytearray()
        for piece in pieces:
            text += piece
            if len(text) > HEAD_BYTES_MAX:
                break
        return bytes(text), iter(pieces)

    def _dispatch(self, statement: Statement, text: bytes, rest: Iterator[bytes]) -> Answer:
        if statement.kind in {Kind.LOAD, Kind.LOAD_SELECT}:
            return self._load(statement, chain((text[statement.data_at :],), rest))
        if next(rest, None) is not None:
            raise errors.refusal(errors.SYNTAX_ERROR, "Syntax error: Max query size exceeded")
        if statement.kind is Kind.READ:
            return self._query(statement.into(self.pipe.path, self.request.default_format), "Null")
        return self._query(statement.sql, self.request.default_format)

    def _load(self, statement: Statement, data: Iterator[bytes]) -> Answer:
        """Through a file: the engine's own way to take data apart from its INSERT tells nobody when
        it could not write what it had read."""
        with tempfile.NamedTemporaryFile(dir=self._folder) as file:
            for piece in data:
                file.write(piece)
            file.flush()
            if file.tell() == 0:
                # No data is no rows in any format, though some formats are never empty.
                statement = replace(statement, format="TabSeparated")
            try:
                answer = self._query(with_data_in(statement, file.name), "Null")
            except errors.ClickHouseError as error:
                where = _IN_FILE % file.name
                raise errors.ClickHouseError(error.code, error.text.replace(where, "")) from None
            return Answer(self.request.default_format, answer.counts)

    def _query(self, sql: bytes, fmt: str) -> Answer:
        body, counts = self._session.connection.query(sql, fmt, self.request.parameters)
        return Answer(self.format, counts, body)
