"""Reaching a ClickHouse by its address."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError

from pipeline.cluster_client import cluster_settings, for_cluster
from pipeline.errors import OperatorError, TryAgainError
from pipeline.tls import why
from pipeline.whole_answers import demand_whole_answers
from schemas.addresses import ClickHouseAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver import Client

_USER_REFUSED = frozenset({192, 193, 194, 516})
"""ClickHouse's codes: unknown user, wrong password, password required, authentication failed."""

NOW_MS = "SELECT toUnixTimestamp64Milli(now64(3))"
"""The time by ClickHouse's own clock, which all who ask it share."""


def connect(address: ClickHouseAddress | str, *, answer_timeout_s: int = 30) -> Client:
    """A client of the ClickHouse at `address`; text is a URL without anything beside.

    Blocks for the handshake. Raises TryAgainError when ClickHouse is away, OperatorError when it
    refuses the user, or when TLS fails.
    """
    if isinstance(address, str):
        address = ClickHouseAddress(address)
    try:
        client = clickhouse_connect.get_client(
            **arguments(address),
            connect_timeout=5,
            send_receive_timeout=answer_timeout_s,
            autogenerate_session_id=False,
        )
    except (ClickHouseError, OSError) as error:
        raise _as_ours(address, error) from error
    if not client.server_settings:
        # Only from now on answers are whole; this one was cut off, since every ClickHouse has some.
        client.close()
        raise _away(address)
    demand_whole_answers(client)
    return client if address.cluster is None else for_cluster(client, address.cluster)


def connect_beside(address: ClickHouseAddress, *, answer_timeout_s: int = 30) -> Client:
    """A client for what nobody waits for: its statements take half of ClickHouse's processors.

    The other half is left to those who wait for an answer. As `connect` in all else.
    """
    client = connect(address, answer_timeout_s=answer_timeout_s)
    known = client.server_settings.get("max_threads")
    if known is None or known.readonly:
        return client  # Whoever may not set it goes on without.
    # As ClickHouse tells what it chose by itself: auto(8).
    if threads := re.search(r"\d+", known.value):
        client.set_client_setting("max_threads", max(1, int(threads[0]) // 2))
    return client


def arguments(address: ClickHouseAddress) -> dict[str, Any]:
    """The address as clickhouse-connect takes it."""
    # By itself the client would take a URL's scheme for a matter of its port.
    found: dict[str, Any] = {
        "dsn": address.url,
        "interface": "https" if address.uses_tls else "http",
    }
    if address.password is not None:
        found |= {"username": address.user, "password": address.password.get_secret_value()}
    if address.ca is not None:
        found["ca_cert"] = str(address.ca)
    if (shown := address.certificate) is not None:
        found |= {"username": address.user, "client_cert": str(shown.cert)}
        if shown.key is not None:
            found["client_cert_key"] = str(shown.key)
        if address.has_password:
            # Otherwise the certificate alone says who asks, and no password is sent.
            found["tls_mode"] = "strict"
    if address.cluster is not None:
        found["settings"] = cluster_settings(address.quorum)
    return found


def _as_ours(address: ClickHouseAddress, error: Exception) -> OperatorError | TryAgainError:
    if isinstance(error, DatabaseError) and error.code in _USER_REFUSED:
        return OperatorError(
            f"ClickHouse at {address} refused user {address.user}: check the user and the password "
            "in TALLY_CLICKHOUSE, or TALLY_CLICKHOUSE_PASSWORD_FILE"
        )
    for cause in _causes(error):
        # A connection that ends amid the handshake may be a server that stops.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            own = ", TALLY_CLICKHOUSE_CERT" if address.certificate else ""
            return OperatorError(
                f"ClickHouse at {address} and this client do not agree on TLS ({why(cause)}): "
                f"check TALLY_CLICKHOUSE_CA{own} and the URL in TALLY_CLICKHOUSE"
            )
    return _away(address)


def _away(address: ClickHouseAddress) -> TryAgainError:
    return TryAgainError(
        f"ClickHouse at {address} does not answer; is it up? TALLY_CLICKHOUSE sets its URL"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what is behind it; urllib3 keeps its reasons in fields of its own."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, getattr(found, "reason", None)]
            waiting += found.args
