"""A pipe that the engine writes a result into and the event loop reads: memory stays bounded.

The engine's own streaming hands out blocks that are each a whole document of their format (a header
per block), which only a few formats survive. Writing INTO OUTFILE on a pipe gives the exact bytes
of any format, and a full pipe makes the query wait for a slow reader.
"""

import asyncio
import contextlib
import fcntl
import os

PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", None)


class Pipe:
    """The reading end belongs to the event loop; the writing end to the thread that runs the query.

    Both ends are closed exactly once, by `close_writing` and `close_reading`, which never raise.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        if _F_SETPIPE_SZ is not None:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._writing, _F_SETPIPE_SZ, PIPE_BYTES)

    @property
    def path(self) -> str:
        """Where the engine opens the writing end; valid until `close_writing`."""
        return f"/dev/fd/{self._writing}"

    async def read(self) -> bytes:
        """The next bytes, at most PIPE_BYTES; empty once the writing end is closed everywhere."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(BlockingIOError):
                return os.read(self._reading, PIPE_BYTES)
            ready = loop.create_future()
            loop.add_reader(self._reading, _set, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self._reading)

    def close_writing(self) -> None:
        """Tells the reader that nothing more comes."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1

    def close_reading(self) -> None:
        """Lets a writer that is blocked on a full pipe fail instead of waiting for ever."""
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
