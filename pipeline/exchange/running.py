"""Passes of the exchange one after the other, through outages of either side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.clock import Clock
    from pipeline.exchange.exchange import Exchange, Passed

CHECK_INTERVAL_S = 3600.0
"""How often what was copied long ago is compared. The first pass does, too."""

BACKOFF_S_MIN = 1.0
BACKOFF_S_MAX = 30.0


@dataclass(slots=True)
class Running:
    """The passes. `wait` takes seconds and returns False when it is time to end."""

    exchange: Exchange
    clock: Clock
    wait: Callable[[float], bool]
    interval_s: float

    def run(self, tell: Callable[[Passed], None], tell_trouble: Callable[[str], None]) -> None:
        """Pass after pass until `wait` says so. Raises OperatorError when somebody must act.

        An outage is told when it begins, whatever it says later on, and a pass when it was made.
        """
        checked_s: float | None = None
        backoff_s = BACKOFF_S_MIN
        is_out = False
        while True:
            began_s = self.clock.monotonic_s()
            check = checked_s is None or began_s - checked_s >= CHECK_INTERVAL_S
            try:
                passed = self.exchange.run(check=check)
            except TryAgainError as error:
                if not is_out:
                    tell_trouble(str(error))
                is_out = True
                pause_s = backoff_s
                backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)
            else:
                is_out, backoff_s = False, BACKOFF_S_MIN
                checked_s = began_s if check else checked_s
                tell(passed)
                took_s = self.clock.monotonic_s() - began_s
                pause_s = max(self.interval_s - took_s, took_s)
            if not self.wait(pause_s):
                return
