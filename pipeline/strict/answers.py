"""Who waits for which answer. No I/O: it hears the changelog's records from whoever reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pipeline.errors import TryAgainError
from pipeline.strict.changelog import counter_of, told

if TYPE_CHECKING:
    from pipeline.strict.state import Decision

WAITING_MAX = 20_000


class NotDecidedYetError(TryAgainError):
    """A command was sent, or may have been, and its answer is not known yet."""

    def __init__(self, id_: str, waited_s: float) -> None:
        super().__init__(
            f"not known yet after {waited_s:g} s: ask again with the same id, {id_}; it is decided "
            "once, and the answer stays the same"
        )


class Answers:
    """Futures by counter and id. Owned by one event loop.

    An answer may be heard before the log has told where its command is, so whoever asks waits here
    before sending. An id that was decided long ago is in the next record of its counter as well,
    as long as it is remembered.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[bytes, list[asyncio.Future[Decision]]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def expect(self, counter: str, digest: bytes) -> asyncio.Future[Decision]:
        """What resolves with the answer; give it to `forget` in the end.

        Raises TryAgainError when too many wait already.
        """
        if self._count >= WAITING_MAX:
            raise TryAgainError("too many commands wait for their answers: ask again later")
        future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(counter, {}).setdefault(digest, []).append(future)
        self._count += 1
        return future

    def forget(self, counter: str, digest: bytes, future: asyncio.Future[Decision]) -> None:
        """Nobody waits for it any more. Call it once for each that was expected."""
        of_counter = self._waiting[counter]
        of_counter[digest].remove(future)
        self._count -= 1
        if not of_counter[digest]:
            del of_counter[digest]
        if not of_counter:
            del self._waiting[counter]

    def hear(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the changelog. Raises OperatorError for what this Tally cannot read.

        What stands for a batch that nobody can read has no key, and is no answer.
        """
        if key is None or value is None or not self._waiting:
            return
        waiting = self._waiting.get(counter_of(key))
        if waiting is None:
            return
        found = told(value)
        for digest, futures in waiting.items():
            decision = found.answer(digest)
            if decision is not None:
                for future in futures:
                    if not future.done():
                        future.set_result(decision)
