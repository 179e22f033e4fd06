"""Sessions: connections that outlive a request, so that SET and temporary tables do too.

Used on the event loop only; all it blocks on is opening and closing connections, 0.4 ms.
"""

from dataclasses import dataclass, field

from pipeline.clock import Clock
from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.engine import Connection, Engine
from pipeline.embedded.clickhouse.passing import Lasting, Passing
from pipeline.embedded.clickhouse.request import SessionWish

SESSIONS_MAX = 1024


@dataclass(slots=True)
class Session:
    """A connection, and what its own SET and USE did to it, for undoing what single queries add.

    One without an id is a passing one, for a single query. It may be kept if its query leaves
    nothing behind but what is `lasting`, which it has already if it `is_prepared`.
    """

    connection: Connection
    lasting: Lasting | None = None
    is_prepared: bool = False
    id: str = ""
    timeout_s: int = 0
    expires_s: float = 0.0
    busy: bool = False
    settings: dict[str, bytes] = field(default_factory=dict)
    database: str = "default"
    readonly: bool = False


class Sessions:
    """All named sessions. At most SESSIONS_MAX are kept: the one idle longest gives way."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._passing = Passing(engine)
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def take(self, wish: SessionWish | None, lasting: Lasting | None = None) -> Session:
        """A session for one query: a passing one without a wish, else the named one, maybe new.

        `lasting` is all that the query will leave behind, None when that is more than settings.

        Raises ClickHouseError when the named session is in use, or must exist and does not.
        """
        self._expire()
        if wish is None:
            connection, is_prepared = self._passing.take(lasting)
            return Session(connection, lasting, is_prepared, busy=True)
        session = self._by_id.get(wish.id)
        if session is None:
            if wish.must_exist:
                raise errors.refusal(errors.SESSION_NOT_FOUND, f"Session {wish.id} not found")
            self._make_room()
            session = Session(self._engine.connect(), id=wish.id)
            self._by_id[wish.id] = session
        elif session.busy:
            raise errors.refusal(
                errors.SESSION_IS_LOCKED, f"Session {wish.id} is locked by a concurrent client"
            )
        session.busy = True
        session.timeout_s = wish.timeout_s
        return session

    def give_back(self, session: Session, *, close: bool, is_clean: bool) -> None:
        """Ends the use that `take` began; a passing session ends with it.

        Its connection is kept if it `is_clean`: nothing was left behind but what is lasting.
        """
        session.busy = False
        if is_clean and session.lasting is not None:
            self._passing.keep(session.connection, session.lasting)
        elif close or not session.id:
            self._drop(session)
        else:
            session.expires_s = self._clock.monotonic_s() + session.timeout_s
            # Moving it to the end keeps the order of last use, in which sessions give way.
            self._by_id[session.id] = self._by_id.pop(session.id)

    def close(self) -> None:
        """Ends all sessions."""
        self._passing.close()
        for session in list(self._by_id.values()):
            self._drop(session)

    def _expire(self) -> None:
        now_s = self._clock.monotonic_s()
        for session in list(self._by_id.values()):
            if not session.busy and session.expires_s <= now_s:
                self._drop(session)

    def _make_room(self) -> None:
        if len(self._by_id) < SESSIONS_MAX:
            return
        idle = next((s for s in self._by_id.values() if not s.busy), None)
        if idle is None:
            raise errors.refusal(
                errors.TOO_MANY_SIMULTANEOUS_QUERIES, f"Too many sessions. Maximum: {SESSIONS_MAX}"
            )
        self._drop(idle)

    def _drop(self, session: Session) -> None:
        self._by_id.pop(session.id, None)
        session.connection.close()
