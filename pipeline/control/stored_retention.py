"""The retention that holds, in ClickHouse: what is dropped must not depend on who leads."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.control.kept import parse_retention, retention_differences, retention_document
from pipeline.control.rules_diff import in_one_line
from pipeline.errors import TryAgainError
from schemas.families import Families

if TYPE_CHECKING:
    from pathlib import Path

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.control.rules_diff import Difference

log = logging.getLogger(__name__)

_TABLE = "tally.retention"
# Of two that are stored at the same millisecond, everybody takes the same.
_NEWEST = (
    "SELECT document, toUnixTimestamp64Milli(applied_at) FROM tally.retention "
    "ORDER BY applied_at DESC, document DESC LIMIT 1"
)


class StoredRetention:
    """What ClickHouse knows of retention. Methods block, and raise TryAgainError when it is away.

    Reading raises OperatorError for a row that this Tally does not understand.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def read(self) -> Families | None:
        """The retention that was stored last, or None if nobody ever did."""
        document, _ = self._newest()
        return None if document is None else parse_retention(document)

    def holding(self) -> Families:
        """What leaders go by: the retention that was stored last, or else the defaults."""
        return self.read() or Families()

    def differences(self, wanted: Families) -> list[Difference]:
        """What storing these families' retention would change."""
        return retention_differences(self.holding(), wanted)

    def store(self, wanted: Families) -> bool:
        """Make these families' retention hold from the next pass of the rollup on.

        Returns whether it had to be stored.
        """
        document, applied_at_ms = self._newest()
        if document == retention_document(wanted):
            return False
        # Later than any other, though this machine's clock may be behind the one that stored it.
        now_ms = max(self._clock.now_ms(), applied_at_ms + 1)
        row = [datetime.fromtimestamp(now_ms / 1000, UTC), retention_document(wanted)]
        try:
            self._client.insert(_TABLE, [row], column_names=["applied_at", "document"])
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(
                f"ClickHouse did not take the retention; apply it again: {error}"
            ) from error
        return True

    def _newest(self) -> tuple[str | None, int]:
        try:
            # Who only looks may come before anybody has made the tables.
            if not int(self._client.query(f"EXISTS TABLE {_TABLE}").result_rows[0][0]):
                return None, 0
            rows = self._client.query(_NEWEST).result_rows
        except (ClickHouseError, OSError) as error:
            raise TryAgainError(f"ClickHouse did not tell the retention: {error}") from error
        return (str(rows[0][0]), int(rows[0][1])) if rows else (None, 0)


def settle_retention(
    stored: StoredRetention, wanted: Families, file: Path, *, overrule: bool
) -> list[Difference]:
    """Before counting begins: store a file's retention where none is, or if it may overrule.

    Returns what changed by that. Otherwise the stored one holds, and a file that differs from it
    gets a warning. Blocks; raises TryAgainError, OperatorError.
    """
    changed: list[Difference] = []
    if overrule or stored.read() is None:
        changed = stored.differences(wanted)
        stored.store(wanted)
    # Looked at once more: another worker may have stored another file's at the same moment.
    if found := stored.differences(wanted):
        log.warning(
            "%s has another retention than the one that holds (%s): `tally rules apply %s` makes "
            "it hold, and until then nothing is dropped by it",
            file,
            in_one_line(found),
            file,
        )
    return changed
