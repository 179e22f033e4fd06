"""Why parts are taken in their order: with another one, counts are missing.

Two backups of one Tally, both begun before a minute of log time is over and ended after it was
checkpointed. Cells of that minute are in ClickHouse and nowhere else by then.
"""

import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline.backup import clickhouse_copy
from pipeline.backup.archive import ArchiveWriter, writing
from pipeline.backup.log_copy import LogCopy
from pipeline.backup.manifest import FORMAT, Manifest
from pipeline.backup.taking import Tell, take_backup
from pipeline.clock import SystemClock
from pipeline.local import data_folder
from tests.integration.backup.site import ends_in, running, settle
from tests.integration.backup.stream import PlacedStream
from tests.integration.complete.comparison import SKETCHED, compare

MINUTE_S = 60
CHECKPOINTED_S = 8
"""After a minute's end, until its cells have left the changelog."""


class WrongOrder:
    """ClickHouse first, then all of the log."""

    def __init__(self, data: Path, target: Path) -> None:
        self._data = data
        self._target = target
        self._held = ExitStack()
        self._archive: ArchiveWriter

    def begin(self) -> None:
        """Copy ClickHouse as it is now."""
        self._archive = self._held.enter_context(writing(self._target, lambda _: None))
        self._archive.add_bytes(data_folder.MARKER, data_folder.encode(data_folder.present()))
        folder = self._data / "clickhouse"
        with clickhouse_copy.tables(folder, is_stopped=False) as tables:
            clickhouse_copy.add(tables, self._archive)

    def end(self) -> None:
        """Copy the log as it is by now."""
        with self._held:
            log = LogCopy(self._data / "log", self._archive)
            log.take_compacted()
            log.take_the_rest()
            present = data_folder.present()
            self._archive.end(Manifest(FORMAT, "0", present, 0, 0, True, self._archive.items))


class Slowly(Tell):
    """Waits between the parts: over a minute's end before ClickHouse, and a while after it."""

    def __init__(self, wrong: WrongOrder) -> None:
        self._wrong = wrong

    def step(self, what: str) -> None:
        if what == "ClickHouse":
            self._wrong.begin()
            time.sleep(MINUTE_S - time.time() % MINUTE_S + CHECKPOINTED_S)
            self._wrong.end()
        elif what == "increments":
            time.sleep(CHECKPOINTED_S)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_clickhouse_comes_after_the_changelog_and_before_the_increments(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with (
        running(tmp_path / "first") as tally,
        PlacedStream(tally.kafka, "all", seed) as stream,
        PlacedStream(tally.kafka, SKETCHED, seed + 1) as sketched,
    ):
        stream.wait_for_more(60, timeout_s=60)
        data = tmp_path / "first" / "data"
        wrong = WrongOrder(data, tmp_path / "wrong.tar")
        take_backup(data, tmp_path / "right.tar", SystemClock(), Slowly(wrong))
        stream.finish()
        sketched.finish()
        settle(tally.kafka)

    def comes_back(name: str) -> None:
        folder = tmp_path / name / "data"
        tally.run("restore", str(tmp_path / f"{name}.tar"), "--data", str(folder))
        ends = ends_in(folder)
        with running(tmp_path / name) as restored:
            settle(restored.kafka)
            compare(restored, [stream.until(ends), sketched.until(ends)])

    comes_back("right")
    with pytest.raises(AssertionError, match="differ"):
        comes_back("wrong")
