"""Which connections are kept. What one may leave behind is shown with the engine itself."""

from typing import cast

from pipeline.embedded.clickhouse.engine import Connection, Engine
from pipeline.embedded.clickhouse.passing import KEPT_MAX, Lasting, Passing


class Opened:
    """Stands for a connection: the engine can be opened but once in a process."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Opening:
    def connect(self) -> Opened:
        return Opened()


def passing() -> Passing:
    return Passing(cast("Engine", Opening()))


def settings(**values: str) -> Lasting:
    return frozenset(values.items())


def closed(connections: list[Connection]) -> list[bool]:
    return [cast("Opened", one).is_closed for one in connections]


def test_a_connection_is_given_only_to_who_wants_what_it_has() -> None:
    kept = passing()
    first, is_prepared = kept.take(settings(a="1"))
    assert not is_prepared
    kept.keep(first, settings(a="1"))
    for other in (settings(), settings(a="2"), settings(a="1", b="1"), None):
        found, is_prepared = kept.take(other)
        assert found is not first
        assert not is_prepared
    assert kept.take(settings(a="1")) == (first, True)
    assert kept.take(settings(a="1"))[0] is not first, "it is in use"


def test_the_connections_that_were_used_longest_ago_give_way() -> None:
    kept = passing()
    taken = [kept.take(settings(a=str(number)))[0] for number in range(KEPT_MAX + 2)]
    for number, one in enumerate(taken):
        kept.keep(one, settings(a=str(number)))
    assert len(kept) == KEPT_MAX
    assert closed(taken) == [True, True, *[False] * KEPT_MAX]
    kept.close()
    assert all(closed(taken))
