"""Whatever ends the thread that decides strict commands ends the worker: another one goes on."""

import asyncio
import os
from typing import Any

import pytest

from pipeline.metrics.meter import UNMEASURED
from pipeline.strict import thread as thread_module
from pipeline.strict.thread import DecidingThread
from schemas.settings import load_settings
from tests.kit.clocks import ManualClock

JOINED_S = 10


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()], ids=repr)
def test_a_thread_that_ends_by_anything_unexpected_ends_the_process(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a library's own cancelling ended was missed by nobody."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    class Failing:
        def __init__(self, *_: Any) -> None: ...

        async def run(self) -> None:
            raise error

    monkeypatch.setattr(thread_module, "Decider", Failing)
    deciding = DecidingThread(load_settings(), ManualClock(), UNMEASURED)
    deciding.start()
    deciding._thread.join(JOINED_S)
    assert codes == [1]
