"""Cells that were set aside and are inserted later: in minutes, hours, days and totals, exactly."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from pipeline.builds.base import carry
from pipeline.builds.carried import CARRIED
from pipeline.clock import SystemClock
from pipeline.letters.insert import GONE, UNREADABLE, Inserted, insert
from pipeline.letters.letter import LetterKey, StoredLetter
from pipeline.letters.put_back import by_table
from pipeline.letters.reads import LetterFilter, LetterReads
from pipeline.letters.row_table import ClickHouseRowTable
from pipeline.letters.rows import SetAsideRow
from pipeline.writes.set_aside import cell_letters
from schemas.addresses import ClickHouseAddress
from schemas.families import parse_families
from tests.integration.clickhouse.process import ClickHouse
from tests.integration.rollup.site import DAY_S, HOUR_S, MINUTE_S, REPLICA, Cell, Site, seconds
from tests.kit.waiting import eventually

FAMILIES = parse_families(
    """
[default]
retention = { "1m" = "3d", "1h" = "7d", "1d" = "forever" }
[families.short]
retention = { "1m" = "2d", "1h" = "7d", "1d" = "10d" }
"""
)
DAY = date(2026, 3, 10)
NOON_S = seconds(DAY, 12)


def cell(minute: int, counter: str = "likes:a", slot_minute: int | None = None) -> Cell:
    slot_s = NOON_S + MINUTE_S * (minute if slot_minute is None else slot_minute)
    return Cell(counter, "eu", NOON_S + minute * MINUTE_S, slot_s, 0)


class Topic:
    """Set-aside cells as the topic of dead letters has them."""

    def __init__(self, *cells: tuple[Cell, int, int], build: int = 1) -> None:
        rows = [
            {
                "build": build,
                "counter": one.counter,
                "region": one.region,
                "window": datetime.fromtimestamp(one.window_s, UTC),
                "slot": datetime.fromtimestamp(one.slot_s, UTC),
                "replica": REPLICA,
                "shard": one.shard,
                "p": p,
                "n": n,
                "duplicates": 0,
                "through": 100 + p,
            }
            for one, p, n in cells
        ]
        self.letters = [
            StoredLetter(
                LetterKey(one.partition, one.offset, one.row, one.timestamp_ms),
                one.value,
                one.bytes_total,
                None,
            )
            for one in cell_letters(rows, ["because"] * len(rows))
        ]

    @property
    def keys(self) -> list[LetterKey]:
        return [letter.key for letter in self.letters]

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        keys = set(wanted)
        return (letter for letter in self.letters if letter.key in keys)


class Table(ClickHouseRowTable):
    """Does something else just before it inserts: after sums were read for the first time."""

    def __init__(self, url: str, before: Callable[[], object]) -> None:
        super().__init__(ClickHouseAddress(url))
        self._before = before

    def insert(self, rows: Sequence[SetAsideRow]) -> dict[int, str]:
        self._before()
        return super().insert(rows)


@pytest.fixture
def insert_all(site: Site, door: ClickHouse) -> Callable[..., Inserted]:
    def run(topic: Topic, before: Callable[[], object] = lambda: None) -> Inserted:
        table = Table(f"http://{door.host}:{door.port}", before)
        try:
            return insert(
                topic.keys,
                1,
                letters=topic,
                tables=by_table(table, site.client, 1),
                memory=LetterReads(site.client),
                clock=SystemClock(),
            )
        finally:
            table.close()

    return run


def roll_up(site: Site, days_later: int = 0) -> None:
    site.flush_position(0, seconds(DAY + timedelta(days=1 + days_later)))
    site.roll_up(1, FAMILIES)


def retried(site: Site) -> int:
    return int(site.rows("SELECT count() FROM tally.put_back FINAL")[0][0])


def assert_exact(site: Site, grains: Iterable[str] = ("1m", "1h", "1d")) -> None:
    sizes = {"1m": MINUTE_S, "1h": HOUR_S, "1d": DAY_S}
    for grain in grains:
        assert site.windows(grain) == site.truth.windows(sizes[grain]), grain
    assert site.totals() == site.truth.totals()


def test_inserted_cells_outlast_the_minutes_and_hours_they_are_in(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    site.flush([(cell(1), 5, 1), (cell(2), 7, 0), (cell(2, "short:a"), 4, 0)])
    roll_up(site)
    # One grew after it had been taken, one was never taken, one is late by an hour of its own.
    aside = [(cell(2), 9, 3), (cell(3, "short:a"), 2, 2), (cell(-90, slot_minute=4), 11, 0)]
    older = (cell(2), 8, 3)
    topic = Topic(*aside, older)
    assert insert_all(topic) == Inserted(letters=4)
    for one in aside:
        site.truth.flushed(*one)
    assert_exact(site)
    assert retried(site) == 4
    assert insert_all(topic).letters == 4, "again, as when the memory of it was lost"
    assert_exact(site)

    roll_up(site, days_later=4)
    eventually(lambda: not site.windows("1m"), "minutes are gone")
    assert_exact(site, ["1h", "1d"])
    roll_up(site, days_later=40)
    roll_up(site, days_later=41)
    days = "SELECT count() FROM tally.cells_1d WHERE family = 'short'"
    eventually(lambda: site.rows(days) == [(0,)], "days are gone")
    assert_exact(site, [])


@pytest.mark.parametrize("days_later", [4, 8, 41])
def test_a_cell_whose_finer_cells_are_gone_is_left_as_a_letter(
    site: Site, insert_all: Callable[..., Inserted], days_later: int
) -> None:
    """After 4 days minutes are gone, after 8 hours, too, after 41 all but the total."""
    site.flush([(cell(1, "short:a"), 5, 1)])
    roll_up(site)
    for later in (days_later, days_later + 1):
        roll_up(site, later)
    eventually(lambda: not site.windows("1m"), "minutes are gone")
    done = insert_all(Topic((cell(2, "short:a"), 100, 3)))
    assert (done.letters, done.left, done.skipped) == (0, 1, {GONE: 1})
    assert not site.windows("1m")
    assert site.totals() == site.truth.totals() == {"short:a": 4}
    assert retried(site) == 0


def test_a_cell_alone_in_its_hour_is_counted_even_when_the_days_minutes_are_gone(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    site.flush([(cell(1), 5, 1)])
    roll_up(site)
    roll_up(site, days_later=4)
    eventually(lambda: not site.windows("1m"), "minutes are gone")
    alone = (cell(-90, slot_minute=3), 100, 3)
    assert insert_all(Topic(alone)).letters == 1
    site.truth.flushed(*alone)
    assert_exact(site, ["1h", "1d"])
    roll_up(site, days_later=5)
    assert_exact(site, ["1h", "1d"])


def test_cells_that_are_refused_still_stay_letters_and_others_do_not_wait_for_them(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    site.client.command("ALTER TABLE tally.cells_1m ADD CONSTRAINT small CHECK p < 100")
    topic = Topic((cell(1), 5, 0), (cell(2), 100, 0), (cell(3), 6, 0))
    done = insert_all(topic)
    [(reason, count)] = done.skipped.items()
    assert (done.letters, count) == (2, 1)
    assert reason.startswith("ClickHouse refuses them still: ")
    assert "small" in reason
    assert retried(site) == 2
    assert site.totals() == {"likes:a": 11}
    alone = insert_all(Topic((cell(2), 100, 0)))
    assert (alone.letters, alone.left) == (0, 1), "though the table took nothing"
    roll_up(site)
    site.client.command("ALTER TABLE tally.cells_1m DROP CONSTRAINT small")
    assert insert_all(topic).letters == 3
    assert site.windows("1h") == {("likes:a", "eu", NOON_S): 111}
    assert site.totals() == {"likes:a": 111}


def test_minutes_that_are_dropped_while_a_cell_is_inserted_do_not_take_it_along(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    aside = (cell(2), 100, 3)
    site.flush([(cell(1), 5, 1)])
    roll_up(site)
    assert insert_all(Topic(aside), before=lambda: roll_up(site, days_later=4)).letters == 1
    site.truth.flushed(*aside)
    roll_up(site, days_later=5)
    assert_exact(site, ["1h", "1d"])


def test_two_who_insert_at_once_lose_none_of_each_others_cells(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    site.flush([(cell(1), 5, 1)])
    roll_up(site)
    mine, others = (cell(2), 100, 3), (cell(3), 50, 0)
    insert_all(Topic(mine), before=lambda: insert_all(Topic(others)))
    for one in (mine, others):
        site.truth.flushed(*one)
    site.client.command("TRUNCATE TABLE tally.cells_1m")
    assert_exact(site, ["1h", "1d"])


def test_a_letter_that_holds_no_cell_of_this_build_is_told(
    site: Site, insert_all: Callable[..., Inserted]
) -> None:
    done = insert_all(Topic((cell(1), 5, 0), build=2))
    assert (done.letters, done.skipped) == (0, {UNREADABLE: 1})
    assert site.totals() == {}


def test_a_row_that_one_build_was_given_back_waits_in_every_other(site: Site) -> None:
    """It was taken for put back in all of them, and was missing there for good."""
    [key] = Topic((cell(1), 5, 1)).keys
    letters = LetterReads(site.client)
    waiting = LetterFilter(waiting=True)
    moment = datetime.fromtimestamp(key.log_ms / 1000, UTC)
    rows = [[build, key.shard, key.offset, key.row, moment, "because"] for build in (1, 2)]
    names = ["build", "shard", "offset", "row", "log_time", "reason"]
    site.client.insert("tally.dead_letters", rows, column_names=names)

    letters.record_put_back([key], 1, key.log_ms)
    assert letters.count(waiting) == 0
    declare(site, 2)
    assert letters.count(waiting) == 1
    assert [one.retried for one in letters.letters(LetterFilter(), 9)] == [False]
    tables = {name: CARRIED[name] for name in ("dead_letters", "put_back")}
    for base, build in ((1, 3), (2, 4)):
        carry(site.client, base, build, key.log_ms + DAY_S * 1000, tables=tables)
        declare(site, build)
        assert letters.count(LetterFilter()) == 1
        assert letters.count(waiting) == (base == 2)


def test_a_row_that_is_put_back_while_another_build_is_given_rows_waits_there(site: Site) -> None:
    """It was taken for put back there, too, though its table had been copied before."""
    [key] = Topic((cell(1), 5, 1)).keys
    letters = LetterReads(site.client)
    moment = datetime.fromtimestamp(key.log_ms / 1000, UTC)
    names = ["build", "shard", "offset", "row", "log_time", "reason"]
    row = [1, key.shard, key.offset, key.row, moment, "because"]
    site.client.insert("tally.dead_letters", [row], column_names=names)

    def put_back(table: str) -> None:
        if table == "distinct_1m":
            letters.record_put_back([key], 1, key.log_ms)

    carry(site.client, 1, 2, key.log_ms + DAY_S * 1000, tables=CARRIED, tell=put_back)
    assert letters.count(LetterFilter(waiting=True)) == 0
    declare(site, 2)
    assert letters.count(LetterFilter(waiting=True)) == 1


def declare(site: Site, build: int) -> None:
    """Make a build the live one."""
    site.client.command(
        f"INSERT INTO tally.builds SELECT '', {build}, max(declaration) + 1, now64(3), 'a test' "
        "FROM tally.builds WHERE cluster = ''"
    )
