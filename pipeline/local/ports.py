"""Ports that are kept for processes which do not run yet, or not at the moment."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def kept_port(host: str, port: int) -> Iterator[int]:
    """A port on which one other process at a time may listen, and which nobody is given by chance.

    With `port` 0 it is one that is free. A socket that is bound and never listens holds it: the
    system gives such a port to nobody who asks for any, also while the process it is for starts
    again, and lets whoever names it, with SO_REUSEADDR as servers do, listen there; who connects
    meanwhile is refused. Does not block. Raises OSError if somebody listens there.
    """
    with _bound(host, port) as holder:
        kept: int = holder.getsockname()[1]
        with _bound(host, kept) as listener:
            listener.listen(1)
        yield kept


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
