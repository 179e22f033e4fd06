"""A backup that is taken while events arrive is brought back, and every number equals the truth."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.integration.backup.adjusted import Adjuster
from tests.integration.backup.buyer import COUNTER, Answer, Buyer, Order, Shelf, ask, orders_in
from tests.integration.backup.liked import LikedStream, OnceTruth
from tests.integration.backup.site import LIKED, command, ends_in, running, settle, web_of
from tests.integration.backup.stream import Cut, PlacedStream
from tests.integration.complete.comparison import SKETCHED, compare
from tests.integration.worker.offsets import log_ends
from tests.kit.processes import wait_until
from tests.kit.tally import RunningTally

BEFORE, AFTER = 150, 60
ORDERS_BEFORE, ADJUSTED_BEFORE = 100, 5
PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Known:
    """What had been acknowledged when the backup began."""

    places: list[tuple[int, int]]
    told: dict[Order, Answer]
    adjusted: int


@dataclass(frozen=True, slots=True)
class Load:
    """Everything that goes on during a backup."""

    streams: list[PlacedStream]
    adjuster: Adjuster
    buyer: Buyer

    def wait(self) -> None:
        """Block until there is some of everything."""
        self.streams[0].wait_for_more(BEFORE, timeout_s=PATIENCE_S)
        wait_until(
            lambda: (
                len(self.buyer.told) >= ORDERS_BEFORE and len(self.adjuster.made) >= ADJUSTED_BEFORE
            ),
            f"{ORDERS_BEFORE} orders and {ADJUSTED_BEFORE} adjustments",
            timeout_s=PATIENCE_S,
        )

    def known(self) -> Known:
        """What was acknowledged by now."""
        places = [place for stream in self.streams for place in stream.acknowledged()]
        return Known(places, dict(self.buyer.told), len(self.adjuster.made))

    def finish(self) -> None:
        """Go on for a while, then stop and wait for all answers."""
        orders, adjusted = len(self.buyer.told), len(self.adjuster.made)
        self.streams[0].wait_for_more(AFTER, timeout_s=PATIENCE_S)
        wait_until(
            lambda: len(self.buyer.told) > orders and len(self.adjuster.made) > adjusted,
            "orders and adjustments go on",
            timeout_s=PATIENCE_S,
        )
        self.buyer.finish()
        self.adjuster.finish()
        for stream in self.streams:
            stream.finish()

    def until(self, ends: list[int]) -> list[Cut]:
        """The truth of a log whose partitions end at these offsets."""
        return [*(stream.until(ends) for stream in self.streams), self.adjuster.until(ends)]

    @property
    def sent(self) -> int:
        return sum(stream.sent for stream in self.streams) + len(self.adjuster.made)


@pytest.mark.timeout(1200)
def test_what_was_copied_under_load_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    file = tmp_path / "backup.tar"
    with (
        running(tmp_path / "first") as tally,
        PlacedStream(tally.kafka, "all", seed) as stream,
        PlacedStream(tally.kafka, SKETCHED, seed + 1) as sketched,
        LikedStream(tally.kafka, LIKED, seed + 3) as liked,
        Adjuster(tally, seed + 4) as adjuster,
        Buyer(web_of(tmp_path / "first"), seed + 5) as buyer,
    ):
        load = Load([stream, sketched, liked], adjuster, buyer)
        load.wait()
        # So that members are in the changelog: a worker that begins anew would learn them again.
        settle(tally.kafka)
        known = load.known()
        data = str(tmp_path / "first" / "data")
        taken = json.loads(command(tally, "backup", str(file), "--data", data, "--json"))
        load.finish()
        settle(tally.kafka)
        # Nothing that runs was harmed: the original is right, too.
        compare(tally, load.until(log_ends(tally.kafka)))
        assert stocked(tally).answers == by_id(buyer.told)
    assert taken["running"]
    assert taken["bytes"] == file.stat().st_size

    tally.run("restore", str(file), "--data", str(tmp_path / "second" / "data"))
    ends = ends_in(tmp_path / "second" / "data")
    with running(tmp_path / "second") as restored:
        cuts = load.until(ends)
        assert len(known.places) >= BEFORE // 2
        assert all(offset < ends[partition] for partition, offset in known.places)
        assert sum(cut.messages for cut in cuts) < load.sent, "no load was on"
        settle(restored.kafka)
        compare(restored, cuts)
        check_adjustments(restored, load, known, ends)
        check_decisions(restored, load, known, web_of(tmp_path / "second"))
        restored.run("verify", "--log")

        likes = cuts[load.streams.index(liked)].truth
        assert isinstance(likes, OnceTruth)
        inside = frozenset(likes.inside)
        with (
            PlacedStream(restored.kafka, "all", seed + 2) as later,
            LikedStream(restored.kafka, LIKED, seed + 6, inside) as liked_later,
        ):
            later.wait_for_more(AFTER, timeout_s=PATIENCE_S)
            later.finish()
            liked_later.finish()
        settle(restored.kafka)
        ends = log_ends(restored.kafka)
        liked_again = liked_later.until(ends)
        assert sum(liked_again.truth.duplicates.values()), "nobody who was in came again"
        compare(restored, [*cuts, later.until(ends), liked_again])
        restored.run("verify", "--log")
        command(restored, "replay", "--check")


def check_adjustments(restored: RunningTally, load: Load, known: Known, ends: list[int]) -> None:
    """All that were acknowledged before are there, and the table has those of the log."""
    present = [one.id for one in load.adjuster.present(ends)]
    assert present[: known.adjusted] == [one.id for one in load.adjuster.made[: known.adjusted]]
    rows = restored.rows("SELECT DISTINCT id FROM tally.adjustments WHERE build = 1")
    assert sorted(id_ for (id_,) in rows) == sorted(present)


def check_decisions(restored: RunningTally, load: Load, known: Known, web: str) -> None:
    """What was told before is in the log, is told again, and decides what is told next."""
    shelf = stocked(restored)
    assert {accepted for accepted, _ in known.told.values()} == {True, False}
    assert known.told.keys() <= {order for order in load.buyer.told if order.id in shelf.answers}
    assert len(shelf.answers) < len(load.buyer.told), "nobody bought meanwhile"
    value = "SELECT value FROM tally.strict_totals WHERE counter = "
    restored.wait_for(f"{value}'{COUNTER}'", [(shelf.value,)])
    again = {one: told for one, told in load.buyer.told.items() if one.id in shelf.answers}
    with httpx.Client(base_url=web, timeout=30) as client:
        assert {order: ask(client, order) for order in again} == again
        for order in (Order("later-0", "decrement", 1), Order("later-1", "increment", 4)):
            assert ask(client, order) == shelf.take(order)
    restored.wait_for(f"{value}'{COUNTER}'", [(shelf.value,)])


def stocked(tally: RunningTally) -> Shelf:
    """The stock by the log alone."""
    shelf = Shelf()
    for order in orders_in(tally.kafka):
        shelf.take(order)
    return shelf


def by_id(told: dict[Order, Answer]) -> dict[str, Answer]:
    return {order.id: answer for order, answer in told.items()}
