"""Connections of queries without a session, kept for the next query that wants one just like it.

Making one and setting what a client asks for each time takes as long as a small query. A connection
keeps what was set on it, so it is kept under that, and only a request with the same settings gets
it: nothing that one request sets can leak into another.

Used on the event loop only; all it blocks on is opening and closing connections, 0.4 ms.
"""

from collections import OrderedDict

from pipeline.embedded.clickhouse.engine import Connection, Engine

KEPT_MAX = 16
"""How many idle connections are kept; those that were used longest ago give way."""

Lasting = frozenset[tuple[str, str]]
"""Settings with their values: all that a connection has that a new one has not."""


class Passing:
    """Idle connections by what was set on them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # In the order in which they were given back.
        self._kept: OrderedDict[Connection, Lasting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, lasting: Lasting | None) -> tuple[Connection, bool]:
        """A connection, and whether it has these settings already; None wants a new one."""
        for connection, kept in reversed(self._kept.items()):
            if kept == lasting:
                del self._kept[connection]
                return connection, True
        return self._engine.connect(), False

    def keep(self, connection: Connection, lasting: Lasting) -> None:
        """Take back one on which nothing was done but setting these."""
        self._kept[connection] = lasting
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)[0].close()

    def close(self) -> None:
        """Ends all that are idle."""
        while self._kept:
            self._kept.popitem()[0].close()
