"""host:port as text. Imports nothing heavy, for processes that need no other setting."""

import re

_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


def split_host_port(text: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[ipv6]:port`. Raises ValueError with what is expected."""
    host, colon, port = text.rpartition(":")
    if not colon or _HOST.fullmatch(host) is None:
        raise ValueError(f"expected host:port, got {text!r}")
    if re.fullmatch(r"[0-9]{1,5}", port) is None or not 0 < int(port) < 65536:
        raise ValueError(f"the port must be from 1 to 65535, got {port!r}")
    return host.strip("[]"), int(port)
