"""One of the two ClickHouses between which cells are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from pipeline.clickhouse import connect
from pipeline.errors import OperatorError, TryAgainError
from schemas.migrate import pending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from clickhouse_connect.driver import Client

    from schemas.addresses import ClickHouseAddress

ANSWER_TIMEOUT_S = 120
# Confirmed means stored. A deletion is not waited for: ClickHouse has it in writing.
_SETTINGS = {"async_insert": 0, "mutations_sync": 0}
_ENGINE = "SELECT engine FROM system.tables WHERE database = 'tally' AND name = 'cells_1m'"
_NOT_MIGRATED = ("UNKNOWN_TABLE", "UNKNOWN_DATABASE", "UNKNOWN_IDENTIFIER", "NO_SUCH_COLUMN")
_REFUSED = ("AUTHENTICATION_FAILED", "ACCESS_DENIED", "READONLY")


class Side:
    """A ClickHouse by its address, reached when it is first asked. Methods block.

    They raise TryAgainError while it is away or busy, and OperatorError when somebody must act.
    """

    def __init__(self, address: ClickHouseAddress, option: str) -> None:
        """`option` is where the URL was given, for people whom it does not answer."""
        self._address = address
        self._option = option
        self._client: Client | None = None

    @property
    def name(self) -> str:
        """The address as it may be shown."""
        return str(self._address)

    def check_migrated(self) -> None:
        """Raise OperatorError unless it has all tables of this version."""
        if pending(self._connected()):
            raise self._not_migrated()

    def check_one_server(self) -> None:
        """Raise OperatorError if it is one of a ClickHouse cluster.

        What was copied, and what arrived, is known by the parts of one server.
        """
        found = self.rows(_ENGINE, {})
        if found and found[0][0] == "Distributed":
            raise OperatorError(
                f"ClickHouse at {self.name} is one of a cluster over which Tally's tables are "
                f"spread, and such cells cannot be exchanged: set {self._option} to a ClickHouse "
                "that keeps all of them itself"
            )

    def rows(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of a query, with values bound to it."""
        try:
            return self._connected().query(query, dict(parameters)).result_rows
        except (ClickHouseError, OSError) as error:
            raise self._as_ours(error) from error

    def run(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """A statement, done when this returns."""
        try:
            self._connected().command(statement, dict(parameters), settings=_SETTINGS)
        except (ClickHouseError, OSError) as error:
            raise self._as_ours(error) from error

    def columns(self, query: str, parameters: Mapping[str, Any]) -> pa.Table:
        """The rows of a query as columns; texts are bytes."""
        try:
            return self._connected().query_arrow(query, dict(parameters), use_strings=False)
        except (ClickHouseError, OSError) as error:
            raise self._as_ours(error) from error

    def insert(self, table: str, rows: pa.Table) -> None:
        """All rows, stored when this returns."""
        try:
            self._connected().insert_arrow(table, rows, database="tally", settings=_SETTINGS)
        except (ClickHouseError, OSError) as error:
            raise self._as_ours(error) from error

    def _connected(self) -> Client:
        if self._client is None:
            try:
                self._client = connect(self._address, answer_timeout_s=ANSWER_TIMEOUT_S)
            except TryAgainError as error:
                raise TryAgainError(
                    f"ClickHouse at {self.name} does not answer; is it up? {self._option} sets "
                    "its URL"
                ) from error
        return self._client

    def _as_ours(self, error: Exception) -> OperatorError | TryAgainError:
        text = " ".join(str(error).split())
        reason = text[:300]
        if isinstance(error, OperationalError) or not isinstance(error, ClickHouseError):
            return TryAgainError(f"ClickHouse at {self.name} does not answer; is it up?")
        if any(name in text for name in _NOT_MIGRATED):
            return self._not_migrated()
        if any(name in text for name in _REFUSED):
            return OperatorError(f"ClickHouse at {self.name} does not allow it: {reason}")
        return TryAgainError(f"ClickHouse at {self.name} did not do it: {reason}")

    def _not_migrated(self) -> OperatorError:
        return OperatorError(
            f"ClickHouse at {self.name} does not have the tables of this version: run tally "
            f"migrate with TALLY_CLICKHOUSE={self.name}"
        )
