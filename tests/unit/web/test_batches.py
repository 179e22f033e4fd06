"""Questions that come together go together, and nobody waits for ever."""

import asyncio
from collections.abc import Sequence

import pytest
from clickhouse_connect.driver.binding import format_bind_value

from pipeline.errors import TryAgainError
from pipeline.reads.names_sent import fitting, sent_bytes
from pipeline.web.batches import BATCH_BYTES_MAX, BATCH_MAX, LANES, Batches
from tests.unit.web.world import settled


class Loader:
    """Answers a batch when it is let; a value is its key and which question it was."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.error: BaseException | None = None
        self.missing: set[str] = set()
        self.open = asyncio.Event()
        self.at_once = 0
        self.at_once_max = 0

    async def __call__(self, keys: Sequence[str]) -> dict[str, str]:
        self.batches.append(list(keys))
        number = len(self.batches)
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            await self.open.wait()
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        return {key: f"{key}{number}" for key in keys if key not in self.missing}


@pytest.fixture
def loader() -> Loader:
    return Loader()


async def test_keys_that_come_while_both_lanes_ask_go_together(loader: Loader) -> None:
    batches = Batches(loader)
    first = [asyncio.create_task(batches.fresh(key)) for key in "ab"]
    await settled()
    later = [asyncio.create_task(batches.fresh(key)) for key in "cdec"]
    await settled()
    loader.open.set()
    assert await asyncio.gather(*first, *later) == ["a1", "b1", "c2", "d2", "e2", "c2"]
    assert loader.batches == [["a", "b"], ["c", "d", "e"]]


async def test_a_fresh_question_begins_after_it_is_asked_and_a_shared_one_may_have_begun(
    loader: Loader,
) -> None:
    batches = Batches(loader)
    first = asyncio.create_task(batches.fresh("a"))
    await settled()
    shared = asyncio.create_task(batches.shared("a"))
    fresh = asyncio.create_task(batches.fresh("a"))
    await settled()
    loader.open.set()
    assert await asyncio.gather(*[first, shared, fresh]) == ["a1", "a1", "a2"]


async def test_what_loading_raises_is_raised_to_all_of_the_batch_and_the_next_is_asked(
    loader: Loader,
) -> None:
    batches = Batches(loader)
    loader.error = TryAgainError("away")
    loader.open.set()
    found = await asyncio.gather(*map(batches.fresh, "ab"), return_exceptions=True)
    assert [str(one) for one in found] == ["away", "away"]
    loader.error = None
    assert await batches.fresh("a") == "a2"


async def test_a_key_that_loading_left_out_is_an_error_and_no_endless_wait(loader: Loader) -> None:
    batches = Batches(loader)
    loader.missing = {"b"}
    loader.open.set()
    found = await asyncio.gather(*map(batches.fresh, "ab"), return_exceptions=True)
    assert isinstance(found[1], KeyError)
    assert await asyncio.wait_for(batches.fresh("c"), 5) == "c2"


async def test_one_of_several_that_gives_up_takes_nothing_from_the_others(loader: Loader) -> None:
    batches = Batches(loader)
    waiters = [asyncio.create_task(batches.fresh("a")) for _ in range(3)]
    await settled()
    waiters[0].cancel()
    await settled()
    loader.open.set()
    assert await asyncio.gather(*waiters[1:]) == ["a1", "a1"]
    assert waiters[0].cancelled()
    assert len(loader.batches) == 1


async def test_a_question_that_comes_just_as_the_lanes_end_is_asked(loader: Loader) -> None:
    """Both lanes have seen that nothing waits, and their tasks are not known to be done yet."""
    batches = Batches(loader)
    asked = []
    for key in "ab":
        asked.append(asyncio.create_task(batches.fresh(key)))
        await settled()
    assert loader.at_once == LANES
    # The lanes go on in the loop's next step, and this comes right after them.
    loader.open.set()
    late = asyncio.create_task(batches.fresh("c"))
    assert await asyncio.wait_for(late, 5) == "c3"
    assert await asyncio.gather(*asked) == ["a1", "b2"]


async def test_batches_and_lanes_and_those_who_wait_are_bounded(loader: Loader) -> None:
    batches = Batches(loader, waiting_max=3 * BATCH_MAX)
    waiters = [
        asyncio.create_task(batches.fresh(f"k{number}")) for number in range(5 * BATCH_MAX + 1)
    ]
    await settled()
    # Two batches were taken by the lanes as they came, one after the other.
    refused = [one for one in waiters if one.done()]
    assert all(isinstance(one.exception(), TryAgainError) for one in refused)
    loader.open.set()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert loader.at_once_max == LANES
    assert max(map(len, loader.batches)) == BATCH_MAX
    assert len(refused) == len(waiters) - sum(map(len, loader.batches)) > 0
    assert await batches.fresh("later")


async def test_a_batch_of_long_names_is_bounded_by_their_bytes_and_has_one_at_least(
    loader: Loader,
) -> None:
    batches = Batches(loader, bytes_of=lambda key: BATCH_BYTES_MAX // 2 + (key == "c"))
    loader.open.set()
    await asyncio.gather(*(batches.fresh(key) for key in "abcde"))
    assert loader.batches == [["a", "b"], ["c"], ["d", "e"]]
    huge = Batches(loader, bytes_of=lambda _: BATCH_BYTES_MAX + 1)
    assert await asyncio.gather(*(huge.fresh(key) for key in "xy")) == ["x4", "y5"]


def test_names_are_as_long_as_the_client_of_clickhouse_sends_them() -> None:
    names = ["likes:a", "it's:\\", "é:" + "x" * 200, "'" * 256]
    sent = len(str(format_bind_value(names)).encode())
    assert sent <= sum(map(sent_bytes, names)) <= sent + 2
    assert list(fitting(names, sum(map(sent_bytes, names[:2])))) == names[:2]
