"""Whether servers and this machine agree on TLS: one handshake, as clients make it."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from pipeline.doctor.findings import Finding, certificate_of
from pipeline.errors import OperatorError, TryAgainError
from pipeline.tls import why

if TYPE_CHECKING:
    from pipeline.clock import Clock

_TIMEOUT_S = 5.0


def look_at_tls(
    whose: str, address: tuple[str, int], context: ssl.SSLContext, clock: Clock
) -> Finding:
    """Blocks for some seconds at most. Raises OperatorError when the handshake fails, TryAgainError
    when nobody is there."""
    host, port = address
    try:
        with (
            socket.create_connection(address, timeout=_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            shown = connection.getpeercert() or {}
            version = connection.version() or "TLS"
    except ssl.SSLError as error:
        name = whose.upper()
        raise OperatorError(
            f"{whose} at {host}:{port} and this client do not agree on TLS ({why(error)}): check "
            f"TALLY_{name}_CA, and whether there is TLS at that port"
        ) from None
    except OSError as error:
        raise TryAgainError(f"nobody speaks TLS on {host}:{port}: {error}") from None
    ends_ms = ssl.cert_time_to_seconds(str(shown["notAfter"])) * 1000
    return certificate_of(whose, version, ends_ms - clock.now_ms())
