"""A run knows up to which byte everything is known, whatever becomes of what it sent."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from pipeline.interrupts import StoppedError
from pipeline.produce import reading
from pipeline.produce.checking import Checked, RefusedLine
from pipeline.produce.progress import Progress
from pipeline.produce.reading import read_chunks
from pipeline.produce.sending import IN_FLIGHT_CHUNKS_MAX, Producing, produce
from pipeline.producer.receipts import Outcome, Receipt, UnknownDeliveryError
from tests.kit.clocks import ManualClock

LINE = b'{"counter":"a:b"}\n'
PER_CHUNK = 10
CHUNK = len(LINE) * PER_CHUNK


@dataclass
class SlowSender:
    """A Sender whose outcomes are the test's to decide, oldest first."""

    unknown: int = 0
    closed: bool = False
    outcomes: list[tuple[Outcome, int]] = field(default_factory=list)
    on_send: Callable[[], None] = lambda: None

    def send(self, checked: Checked) -> Receipt:
        outcome = Outcome()
        rows = len(checked.lines)
        outcome.packed(np.zeros(rows, np.int64), 1)
        self.outcomes.append((outcome, rows))
        self.on_send()
        return Receipt(outcome, 0, rows)

    def close(self) -> None:
        self.closed = True
        while self.outcomes:
            self.lose()

    def store(self) -> None:
        self.outcomes.pop(0)[0].stored(0, 3, 7)

    def lose(self) -> None:
        outcome, rows = self.outcomes.pop(0)
        self.unknown += rows
        outcome.failed(0, UnknownDeliveryError("not confirmed"))


@dataclass
class Wanted:
    """Wishes."""

    asked: bool = False
    hurried: bool = False


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", CHUNK)


def run(
    sender: SlowSender,
    chunks: int,
    *,
    wanted: Wanted | None = None,
    once: bool = False,
    on_progress: Callable[[Producing], None] = lambda _: None,
    data: bytes | None = None,
) -> tuple[Producing, bool, list[RefusedLine]]:
    refused: list[RefusedLine] = []
    producing = Producing(Progress(0, "f00d", once), sender, ManualClock(), refused.append)
    file = io.BytesIO(LINE * PER_CHUNK * chunks if data is None else data)
    ended = produce(
        read_chunks(file.read), producing, wanted or Wanted(), lambda: on_progress(producing)
    )
    return producing, ended, refused


def test_everything_stored_is_accounted_for() -> None:
    sender = SlowSender()
    sender.on_send = sender.store
    producing, ended, _ = run(sender, 3)
    assert ended
    progress = producing.progress
    assert (progress.offset, progress.lines, progress.sent) == (3 * CHUNK, 30, 30)
    assert (progress.receipt, producing.lost) == ("3:7", None)


def test_refused_and_blank_lines_are_accounted_for() -> None:
    sender = SlowSender()
    sender.on_send = sender.store
    producing, ended, refused = run(sender, 1, data=LINE + b"\n" + b"oops\n" + LINE + b"bad")
    assert ended
    assert refused == [(3, "not JSON"), (5, "not JSON")]
    progress = producing.progress
    assert (progress.lines, progress.sent, progress.refused) == (5, 2, 2)
    assert progress.offset == 2 * len(LINE) + 9


def test_what_is_known_is_up_to_the_first_that_is_not() -> None:
    sender, seen = SlowSender(), list[int]()

    def on_progress() -> None:
        seen.append(len(sender.outcomes))
        if len(sender.outcomes) == IN_FLIGHT_CHUNKS_MAX:
            sender.outcomes.pop()[0].stored(0, 5, 1)
        elif IN_FLIGHT_CHUNKS_MAX in seen and sender.outcomes:
            assert producing.progress.offset == (IN_FLIGHT_CHUNKS_MAX - 1 - seen[-1]) * CHUNK
            sender.store()

    producing = Producing(Progress(0, "f00d"), sender, ManualClock(), lambda _: None)
    file = io.BytesIO(LINE * PER_CHUNK * IN_FLIGHT_CHUNKS_MAX)
    assert produce(read_chunks(file.read), producing, Wanted(), on_progress)
    assert seen[-1] == 0
    assert producing.progress.offset == IN_FLIGHT_CHUNKS_MAX * CHUNK
    assert producing.progress.receipt == "3:7,5:1"


def test_no_more_is_taken_than_may_be_in_flight() -> None:
    sender, seen = SlowSender(), list[int]()

    def on_progress(_: Producing) -> None:
        seen.append(len(sender.outcomes))
        if len(seen) > IN_FLIGHT_CHUNKS_MAX and sender.outcomes:
            sender.store()

    producing, ended, _ = run(sender, 3 * IN_FLIGHT_CHUNKS_MAX, on_progress=on_progress)
    assert ended
    assert max(seen) == IN_FLIGHT_CHUNKS_MAX
    assert producing.progress.sent == 3 * IN_FLIGHT_CHUNKS_MAX * PER_CHUNK


def test_lost_lines_end_the_run_and_are_passed_over_without_ids() -> None:
    sender = SlowSender()
    becomes = iter([sender.store, sender.lose])

    def on_send() -> None:
        next(becomes)()

    sender.on_send = on_send
    producing, ended, _ = run(sender, 5)
    assert not ended
    assert producing.lost == (CHUNK, 2 * CHUNK)
    progress = producing.progress
    assert (progress.offset, progress.sent, progress.unknown) == (2 * CHUNK, 10, 10)


def test_lost_lines_with_ids_are_gone_on_with() -> None:
    sender, wanted = SlowSender(), Wanted()

    def on_progress(producing: Producing) -> None:
        if len(sender.outcomes) == 3:
            for settle in (sender.store, sender.lose, sender.store):
                settle()
        elif producing.lost and sender.outcomes:
            sender.store()

    producing, ended, _ = run(sender, 5, once=True, wanted=wanted, on_progress=on_progress)
    assert not ended
    assert producing.lost == (CHUNK, 2 * CHUNK)
    progress = producing.progress
    assert (progress.offset, progress.lines, progress.sent) == (CHUNK, 10, 10)
    assert (progress.unknown, producing.unknown) == (0, 10)


def test_somebody_who_wants_it_to_end_gets_what_was_sent_settled() -> None:
    sender, wanted = SlowSender(), Wanted()

    def on_progress(_: Producing) -> None:
        if wanted.asked and sender.outcomes:
            sender.store()
        wanted.asked = wanted.asked or len(sender.outcomes) == 4

    producing, ended, _ = run(sender, 9, wanted=wanted, on_progress=on_progress)
    assert (ended, producing.lost, sender.closed) == (False, None, False)
    assert (producing.progress.offset, producing.progress.sent) == (4 * CHUNK, 40)


def test_somebody_in_a_hurry_is_told_what_is_not_known() -> None:
    sender, wanted = SlowSender(), Wanted()

    def on_progress(_: Producing) -> None:
        if len(sender.outcomes) == 4:
            sender.store()
            wanted.asked = wanted.hurried = True

    producing, ended, _ = run(sender, 9, wanted=wanted, on_progress=on_progress)
    assert (ended, sender.closed) == (False, True)
    assert producing.lost == (CHUNK, 4 * CHUNK)
    progress = producing.progress
    assert (progress.offset, progress.sent, progress.unknown) == (4 * CHUNK, 10, 30)


@pytest.mark.parametrize("error", [StoppedError, OSError])
def test_what_was_sent_before_reading_ended_is_settled(error: type[Exception]) -> None:
    sender = SlowSender()
    blocks = [LINE * PER_CHUNK, LINE + LINE[:5]]

    def read(_size: int) -> bytes:
        if not blocks:
            raise error("gone")
        return blocks.pop(0)

    producing = Producing(Progress(0, "f00d"), sender, ManualClock(), lambda _: None)
    chunks = read_chunks(read)

    def go() -> bool:
        return produce(chunks, producing, Wanted(), on_progress)

    def on_progress() -> None:
        if producing.taken_bytes > CHUNK and sender.outcomes and not blocks:
            sender.store()

    if error is OSError:
        with pytest.raises(OSError, match="gone"):
            go()
    else:
        assert not go()
    # Half of a line that was read is not sent.
    assert producing.progress.offset == CHUNK + len(LINE)
    assert producing.progress.sent == PER_CHUNK + 1
