"""chDB: the one file that imports it.

What trials with chDB 4.4 (engine 26.9) showed, and what follows from it here:
- A process opens one folder, and may have many connections to it, each with its own settings,
  temporary tables and current database. They run in parallel, without the interpreter's lock.
- A new connection takes 0.4 ms, and a SET as long again. A statement's own SETTINGS end with it, so
  after one that reads or inserts a connection is as it was before, and is used again, but only by a
  query that would set the same (passing.py): nothing can leak into the next.
- `query` takes bytes and runs several statements if it finds them. It returns once parts are
  renamed into place, async_insert or not.
- `send_insert`, which takes an INSERT's head and its data apart, says that all rows were written
  even when none was: too many partitions, a full disk and a violated constraint are told to nobody.
  And data in the query itself is cut off when it is large. So an INSERT reads its data from a file.
- The engine makes up query ids; `log_comment` is the one free-text setting that system.processes
  shows, so it carries the client's id, and KILL QUERY finds queries by it.
- A merge that runs out of space is told to nobody, either (disk_watch.py).
- `INSERT … SELECT … FROM input()` with inline data inserts nothing and says so to nobody, either.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chdb import _chdb

from pipeline.embedded.clickhouse.counts import Counts
from pipeline.embedded.clickhouse.errors import ClickHouseError, from_engine
from pipeline.embedded.clickhouse.sql_text import quoted, setting_name
from pipeline.errors import OperatorError

# chDB's type stubs leave out most of its native module.
_native: Any = _chdb
_FAILURES = (RuntimeError, UnicodeDecodeError)
_CONFIG = Path(__file__).with_name("engine.xml")


class Connection:
    """One chDB connection, for one thread at a time. Calls block and raise ClickHouseError."""

    def __init__(self, path: str) -> None:
        self._chdb: Any = _native.connect(path)

    def query(
        self, sql: bytes, fmt: str = "TabSeparated", parameters: Mapping[str, str] | None = None
    ) -> tuple[bytes, Counts]:
        """Run one statement; its answer in memory, in `fmt` unless the statement names a format."""
        try:
            result = self._chdb.query(sql, fmt, params=dict(parameters or {}))
            return result.bytes(), _counts(result)
        except _FAILURES as error:
            raise _failure(error) from None

    def set(self, settings: Mapping[str, str]) -> None:
        """SET for this connection; values are quoted, and the engine converts them."""
        if settings:
            pairs = b", ".join(setting_name(n) + b" = " + quoted(v) for n, v in settings.items())
            self.query(b"SET " + pairs)

    def only_reads(self, sql: bytes) -> bool:
        """Whether the statement changes no table."""
        kind = self._chdb.classify_query(sql.decode("utf-8", "replace"))["query_class"]
        return bool(kind == _native.query_class.READ_ONLY)

    def close(self) -> None:
        """Frees what the connection holds; the engine stays."""
        self._chdb.close()


class Engine:
    """The engine on one folder, opened once per process; any thread may `connect`."""

    def __init__(self, data: Path) -> None:
        """Blocks for up to seconds; raises OperatorError when the engine cannot open the folder."""
        if "?" in str(data):
            raise OperatorError(f"ClickHouse cannot open {data}: its name may not hold a '?'")
        # chDB's defaults are those of a command line; these make them a server's again.
        self._path = (
            f"{data}?implicit_select=0&allow_introspection_functions=0&config-file={_CONFIG}"
        )
        # Without this, chDB takes over the process's fatal signals and its clean stop.
        _native.set_signal_handlers_enabled(0)
        try:
            self._root = Connection(self._path)
            self.version = self._root.query(b"SELECT version()")[0].decode().strip()
            self.table_functions = tuple(
                self._root.query(b"SELECT name FROM system.table_functions")[0].decode().split()
            )
            self.timezone = self._root.query(b"SELECT timezone()")[0].decode().strip()
        except (RuntimeError, ClickHouseError) as error:
            raise OperatorError(f"ClickHouse cannot open {data}: {error}") from None

    def connect(self) -> Connection:
        return Connection(self._path)

    def kill(self, query_id: str) -> None:
        """Asks every query with this client id to stop; does not wait for it."""
        connection = self.connect()
        try:
            connection.query(
                b"KILL QUERY WHERE Settings['log_comment'] = %s ASYNC" % quoted(query_id)
            )
        finally:
            connection.close()

    def close(self) -> None:
        self._root.close()


def _failure(error: RuntimeError | UnicodeDecodeError) -> ClickHouseError:
    """A message that quotes bytes of the query may be no text, and then fails to become one."""
    if isinstance(error, UnicodeDecodeError):
        return from_engine(error.object.decode("utf-8", "replace"))
    return from_engine(str(error))


def _counts(result: Any) -> Counts:
    return Counts(
        read_rows=result.storage_rows_read(),
        read_bytes=result.storage_bytes_read(),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        result_rows=result.rows_read(),
        result_bytes=result.bytes_read(),
        elapsed_ns=int(result.elapsed() * 1e9),
    )
