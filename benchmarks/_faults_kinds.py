"""The faults that are measured: what is done, for how long, and what a table calls it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.schedule import Harm

NONE = "no fault"
CALM_S = 30.0
ZOMBIE_S = 25.0
STALL_S = 8.0
FULL_S = 6.0
AWAY_S = 30.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them. Without a `kind` of harm nothing is done for its time."""

    name: str
    shown: str
    kind: str = ""
    for_s: float = 0.0

    def harm(self, number: int) -> Harm:
        """As chaos does it; `number` says to which of several parts. Raises ValueError for none."""
        if not self.kind:
            raise ValueError(f"{self.name} is no harm")
        return Harm(0.0, self.kind, number, self.for_s, 1.0)


def _same(kind: str, shown: str, for_s: float = 0.0) -> Fault:
    return Fault(kind, shown, kind, for_s)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(NONE, f"none, for {CALM_S:g} s", for_s=CALM_S),
        _same("kill worker", "one of two workers is killed"),
        _same("stop worker", f"one of two workers hangs for {ZOMBIE_S:g} s", ZOMBIE_S),
        _same("kill log", "the log is killed"),
        _same("kill clickhouse", "ClickHouse is killed"),
        _same("kill web", "one of two web processes is killed"),
        _same("restart log", "the log is restarted in order"),
        _same("restart clickhouse", "ClickHouse is restarted in order"),
        _same("restart worker", "one of two workers is restarted in order"),
        _same("cut log", "all connections to the log are cut"),
        _same("cut clickhouse", "all connections to ClickHouse are cut"),
        _same("stall log", f"nothing comes from or to the log for {STALL_S:g} s", STALL_S),
        _same(
            "stall clickhouse", f"nothing comes from or to ClickHouse for {STALL_S:g} s", STALL_S
        ),
        _same("fill disk of log", f"the log's disk is full for {FULL_S:g} s", FULL_S),
        _same("fill disk of clickhouse", f"ClickHouse's disk is full for {FULL_S:g} s", FULL_S),
        Fault("clickhouse away", f"ClickHouse is away for {AWAY_S:g} s", "kill clickhouse", AWAY_S),
    )
}
"""By name, in the order of the table. What ends is started again at once by its keeper."""


def in_turn(names: list[str], number: int) -> list[Fault]:
    """Those to do in a round: another one begins each, since one may harm the next."""
    first = number % len(names)
    return [FAULTS[name] for name in (*names[first:], *names[:first])]
