"""How much of a request is taken, and for how long: bodies are cut off before they fill memory."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pipeline.errors import BadInputError, TallyError, TryAgainError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

INCREMENT_BYTES_MAX = 16 << 10
"""Of the body of one increment: an event is far smaller."""

BULK_BYTES_MAX = 16 << 20
"""Of many increments in one request. Larger files go by `tally produce`, or in parts."""

BODY_S_MAX = 30.0
"""How long a body may take to arrive. Whoever sends slower would hold room that others wait for."""

COUNTERS_MAX = 1_000
"""How many counters one request may ask for."""

RECEIPT_CHARS_MAX = 4_096 * len("4095:123456789012345678,")
"""Of a receipt or a session in a header: as many places as Tally has partitions at most, each of
them as long as it can be. What was given must be taken back."""


_DIGITS_MAX = 18

BULKS_MAX = 16
"""How many bodies of many increments are held at once. One more is refused: together they would
take up the memory."""


OPERATORS_MAX = 4
"""How many questions of operators are asked at once that need clients of their own."""


class Slots:
    """So many at once. Owned by one event loop."""

    def __init__(self, slots_max: int) -> None:
        self._free = slots_max

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Holds one. Raises TryAgainError when none is free; never blocks."""
        if not self._free:
            raise TryAgainError("too many large requests at once: send it again later")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class TooLargeError(TallyError):
    """More than is taken in one request."""


class TooSlowError(TallyError):
    """A body that did not arrive in time. Nothing was done with what came of it."""


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Waits for it up to BODY_S_MAX, then raises TooSlowError.

    Raises TooLargeError as soon as it is known to be too large, and BadInputError if it is not as
    long as its Content-Length says: a part of it, or none, would be taken for another increment.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > _DIGITS_MAX or int(announced) > bytes_max):
        raise TooLargeError(_too_large(bytes_max))
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise TooLargeError(_too_large(bytes_max))
                parts.append(part)
    except TimeoutError:
        raise TooSlowError(
            f"the body did not arrive within {BODY_S_MAX:g} s, and nothing was written: send it "
            "again, in smaller parts"
        ) from None
    if announced.isdecimal() and int(announced) != size:
        raise BadInputError(
            f"the body has {size:,} bytes, not {int(announced):,} as its Content-Length says: "
            "nothing was written"
        )
    return b"".join(parts)


def _too_large(bytes_max: int) -> str:
    return f"the body is larger than {bytes_max:,} bytes: send it in parts"
