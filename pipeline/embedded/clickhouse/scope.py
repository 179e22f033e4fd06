"""What a request sets for one query, and for that query only.

A passing session is thrown away afterwards, or kept for requests with the same settings
(passing.py), the query's id apart, which goes into the statement. In a named one, settings,
database and temporary tables of the request are undone: a setting goes back to what the session's
own SET made it, else to its default. `readonly` cannot be undone in an engine, so in a named
session the statement is judged beforehand instead.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.engine import Connection
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.form import ExternalTable
from pipeline.embedded.clickhouse.insert import with_data_in
from pipeline.embedded.clickhouse.passing import Lasting
from pipeline.embedded.clickhouse.request import Request
from pipeline.embedded.clickhouse.session_settings import assignments
from pipeline.embedded.clickhouse.sessions import Session
from pipeline.embedded.clickhouse.sql_text import identifier, setting_name
from pipeline.embedded.clickhouse.statement_kind import Kind, Statement

OUTPUT_PLACE_BYTES = 4096
COMMENT_CHARS_MAX = 256
_COMMENT = "log_comment"


def lasting(request: Request, *, is_reader: bool) -> Lasting | None:
    """What a query of this request leaves behind on its connection, if that is settings alone.

    None where it is more, or where the settings are such that nothing can be set after them. Pure.
    """
    alters_more = request.session or request.tables or request.database or request.from_get
    if is_reader or alters_more or "readonly" in request.settings:
        return None
    return frozenset((n, v) for n, v in _asked_for(request).items() if n != _COMMENT)


@contextmanager
def scoped(
    session: Session, request: Request, statement: Statement, *, is_reader: bool = False
) -> Iterator[Statement]:
    """The session, as the request wants it, for one statement; blocks, raises ClickHouseError.

    The statement to run is the one given, or one that tells the query's id by itself. A reader's
    session is a passing one, and ends up as the engine's `readonly = 1`.
    """
    connection = session.connection
    settings = _settings(session, request)
    if session.is_prepared:
        settings = {_COMMENT: settings[_COMMENT]}
    is_short = len(settings.get(_COMMENT, "")) <= COMMENT_CHARS_MAX
    if statement.takes_settings and is_short and session.lasting is not None:
        # One statement less than SET.
        statement = statement.with_setting(_COMMENT, settings.pop(_COMMENT))
    if session.id:
        _check_readonly(session, request, statement)
    with ExitStack() as undo:
        for table in request.tables:
            _make_table(connection, table)
            undo.callback(_drop_table, session, table)
        if request.database:
            connection.query(b"USE " + identifier(request.database))
            undo.callback(_use_own_database, session)
        # GET comes first: under it, a request may not loosen `readonly` again.
        if request.from_get and not session.id and not is_reader:
            connection.set({"readonly": "2"})
        undo.callback(_set_own_values, session, settings)
        connection.set(settings)
        if is_reader:
            # Last, since nothing can be set under it.
            connection.set({"readonly": "1"})
        yield statement
        if session.id:
            _remember(session, statement)
        else:
            undo.pop_all()  # All this ends with the connection, or is what it is kept under.


def _asked_for(request: Request) -> dict[str, str]:
    settings = dict(request.settings)
    if "max_query_size" in settings:
        # The statement was measured already; the engine sees it with an output's place added.
        settings["max_query_size"] = str(request.query_size_bytes_max + OUTPUT_PLACE_BYTES)
    return settings


def _settings(session: Session, request: Request) -> dict[str, str]:
    settings = _asked_for(request)
    if session.id:
        settings.pop("readonly", None)
    if not session.readonly:
        settings.setdefault(_COMMENT, request.query_id)
    return settings


def _check_readonly(session: Session, request: Request, statement: Statement) -> None:
    if not request.readonly or statement.kind in (Kind.READ, Kind.SET, Kind.USE):
        return
    if statement.kind is not Kind.OTHER or not session.connection.only_reads(statement.sql):
        raise errors.refusal(errors.READONLY, "default: Cannot execute query in readonly mode")


def _make_table(connection: Connection, table: ExternalTable) -> None:
    name, structure = identifier(table.name), table.structure.encode("utf-8", "replace")
    connection.query(b"CREATE TEMPORARY TABLE %s (%s)" % (name, structure))
    insert = Statement(Kind.LOAD, b"INSERT INTO " + name, table.format)
    with tempfile.NamedTemporaryFile() as file:
        file.write(table.data)
        file.flush()
        connection.query(with_data_in(insert, file.name))


def _remember(session: Session, statement: Statement) -> None:
    if statement.kind is Kind.SET:
        session.settings.update(assignments(statement.sql))
        session.readonly = _asked(session.connection, b"getSetting('readonly')") != "0"
    elif statement.kind is Kind.USE:
        session.database = _asked(session.connection, b"currentDatabase()")


def _set_own_values(session: Session, settings: Mapping[str, str]) -> None:
    pairs = [
        setting_name(name) + b" = " + session.settings.get(name, b"DEFAULT") for name in settings
    ]
    try:
        if pairs:
            session.connection.query(b"SET " + b", ".join(pairs))
    except ClickHouseError:
        # A name that could not be set, in a query that failed for it, cannot be unset either.
        for pair in pairs:
            with suppress(ClickHouseError):
                session.connection.query(b"SET " + pair)


def _use_own_database(session: Session) -> None:
    with suppress(ClickHouseError):  # It may have been dropped.
        session.connection.query(b"USE " + identifier(session.database))


def _drop_table(session: Session, table: ExternalTable) -> None:
    with suppress(ClickHouseError):  # The query itself may have dropped it.
        session.connection.query(b"DROP TEMPORARY TABLE " + identifier(table.name))


def _asked(connection: Connection, expression: bytes) -> str:
    return connection.query(b"SELECT %s FORMAT TSVRaw" % expression)[0].decode().rstrip("\n")
