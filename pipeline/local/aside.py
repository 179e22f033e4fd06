"""Calls that block, beside the event loop, which nobody has to wait for at the end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def aside(call: Callable[[], T]) -> T:
    """What the call returns or raises; it runs in a thread of its own.

    Unlike with `asyncio.to_thread`, a call that was given up keeps no process alive: whoever
    cancels this may leave, and the thread ends with the process.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = call()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(found)

    threading.Thread(target=run, name="tally-aside", daemon=True).start()
    return await asyncio.wrap_future(done)
