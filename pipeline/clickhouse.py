"""Reaching a ClickHouse by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client


def connect(url: str, *, answer_timeout_s: int = 30) -> Client:
    """A client of the ClickHouse at `url`. Blocks for the handshake; raises TryAgainError."""
    try:
        return clickhouse_connect.get_client(
            dsn=url,
            connect_timeout=5,
            send_receive_timeout=answer_timeout_s,
            autogenerate_session_id=False,
        )
    except (ClickHouseError, OSError) as error:
        raise TryAgainError(
            f"ClickHouse at {without_secrets(url)} does not answer; is it up? TALLY_CLICKHOUSE "
            "sets its URL"
        ) from error


def with_user(url: str, user: str, password: str) -> str:
    """The URL with a user and a password of URL-safe characters in it, in the place of others."""
    parts = urlsplit(without_secrets(url))
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
