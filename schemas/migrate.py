"""ClickHouse's tables, brought up to date: numbered files `NNNN_name.sql`, each applied once.

Every statement in a file is written to be repeatable (IF NOT EXISTS and the like), so no lock is
needed: two processes that migrate at once run the same statements and both record the file, which
counts as once; a process killed between a statement and its record leaves a file that the next one
runs again. A file that was applied never changes: its checksum is kept, and another is refused.

Functions belong to the server and not to the database, so a copy of the database may come without
them. They are made anew each time, before the files, whose views are made of them.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from pipeline.errors import OperatorError, TryAgainError
from schemas.sql_statements import split_statements
from sketches import sql, sql_frequency

SQL_FOLDER = Path(__file__).parent / "sql"
FUNCTIONS = (*sql.FUNCTIONS, *sql_frequency.FUNCTIONS)

_NAME = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")
_REASON_MAX = 500
_CREATE_DATABASE = "CREATE DATABASE IF NOT EXISTS tally"
_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS tally.migrations
(
    number UInt32,
    name String,
    checksum String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file: its statements and the SHA-256 of its bytes, in hexadecimal."""

    number: int
    name: str
    checksum: str
    statements: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{self.number:04}_{self.name}.sql"


def read_migrations(folder: Path = SQL_FOLDER) -> list[Migration]:
    """The folder's migrations by number. Raises OperatorError for an odd name, a gap or a twin."""
    migrations = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise OperatorError(f"{path}: a migration is named NNNN_name.sql, in small letters")
        content = path.read_bytes()
        checksum = hashlib.sha256(content).hexdigest()
        statements = tuple(split_statements(content.decode()))
        migrations.append(Migration(int(match[1]), match[2], checksum, statements))
    for expected, migration in enumerate(migrations, start=1):
        if migration.number != expected:
            raise OperatorError(
                f"{folder / migration.file}: number {expected:04} was expected here;"
                " migrations are numbered from 0001 without gaps"
            )
    return migrations


def all_statements(folder: Path = SQL_FOLDER) -> list[str]:
    """What `migrate` runs where there is nothing yet, but for its records. Raises OperatorError."""
    files = [statement for one in read_migrations(folder) for statement in one.statements]
    return [_CREATE_DATABASE, _CREATE_TABLE.strip(), *FUNCTIONS, *files]


def pending(client: Client, folder: Path = SQL_FOLDER) -> list[Migration]:
    """The migrations still to be applied, by number; changes nothing. Blocks on the server.

    Raises OperatorError when the database and the folder contradict each other, and TryAgainError
    when the server is away.
    """
    migrations = read_migrations(folder)
    applied = _applied(client)
    by_number = {migration.number: migration for migration in migrations}
    for number, records in sorted(applied.items()):
        migration = by_number.get(number)
        if migration is None:
            names = ", ".join(sorted(name for name, _ in records))
            raise OperatorError(
                f"the database has migration {number:04} ({names}), which this Tally does not know;"
                " run the newer Tally that applied it"
            )
        if records != {(migration.name, migration.checksum)}:
            raise OperatorError(
                f"the tables were made by another Tally, whose {migration.file} differs from this"
                " one's: use that Tally, or begin with a new database (another --data folder)."
                f" If somebody has edited {folder / migration.file}, take that back and put the"
                " change into a new file"
            )
    rest = [migration for migration in migrations if migration.number not in applied]
    if rest and applied and rest[0].number < max(applied):
        raise OperatorError(
            f"{folder / rest[0].file} was never applied, though {max(applied):04} was;"
            " give it the next free number"
        )
    return rest


def migrate(client: Client, folder: Path = SQL_FOLDER) -> list[Migration]:
    """Applies what is pending and returns it, by number. May be called at every start. Blocks.

    Raises OperatorError when a statement fails or as `pending` does, TryAgainError when the server
    is away; what was applied before stays applied, and calling again goes on from there.
    """
    migrations = pending(client, folder)
    _run(client, _CREATE_DATABASE, "tally.migrations")
    _run(client, _CREATE_TABLE, "tally.migrations")
    for statement in FUNCTIONS:
        _run(client, statement, "the functions of tally")
    for migration in migrations:
        for number, statement in enumerate(migration.statements, start=1):
            _run(client, statement, f"{folder / migration.file}, statement {number}")
        _record(client, migration)
    return migrations


def _applied(client: Client) -> dict[int, set[tuple[str, str]]]:
    """Name and checksum under which each number was recorded; two records that agree are one."""
    exists = _run(client, "EXISTS TABLE tally.migrations", "tally.migrations")
    if not int(str(exists)):
        return {}
    try:
        rows = client.query("SELECT number, name, checksum FROM tally.migrations").result_rows
    except ClickHouseError as error:
        raise _as_ours(error, "tally.migrations") from error
    applied: dict[int, set[tuple[str, str]]] = {}
    for number, name, checksum in rows:
        applied.setdefault(number, set()).add((name, checksum))
    return applied


def _record(client: Client, migration: Migration) -> None:
    row = [migration.number, migration.name, migration.checksum]
    try:
        client.insert(
            "migrations", [row], column_names=["number", "name", "checksum"], database="tally"
        )
    except ClickHouseError as error:
        raise _as_ours(error, migration.file) from error


def _run(client: Client, statement: str, place: str) -> object:
    try:
        return client.command(statement)
    except ClickHouseError as error:
        raise _as_ours(error, place) from error


def _as_ours(error: ClickHouseError, place: str) -> OperatorError | TryAgainError:
    reason = " ".join(str(error).split())[:_REASON_MAX] or type(error).__name__
    if isinstance(error, OperationalError):
        return TryAgainError(f"ClickHouse cannot be reached to migrate {place}: {reason}")
    return OperatorError(f"{place}: ClickHouse refuses it: {reason}")
