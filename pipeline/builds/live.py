"""Which build is live, and which one a process counts into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client

    from schemas.settings import Settings


FOREIGN = 0x80000000
"""Builds from here on hold the cells of other clusters."""


def live_build(client: Client) -> int:
    """The build of this cluster that views read. Blocks; raises TryAgainError."""
    try:
        [(build,)] = client.query(
            "SELECT build FROM tally.live_builds WHERE cluster = ''"
        ).result_rows
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(f"ClickHouse did not tell which build is live: {error}") from error
    return int(build)


def build_of(settings: Settings, client: Client) -> int:
    """The build that a process with these settings counts into. Blocks; raises TryAgainError."""
    return settings.build or live_build(client)
