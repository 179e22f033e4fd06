"""Which dead letters are sent again, as what, and what is remembered of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from pipeline.errors import BadInputError, TryAgainError
from pipeline.letters import retry as retry_module
from pipeline.letters.edited import read_edited
from pipeline.letters.letter import LetterKey, StoredLetter, read_letter
from pipeline.letters.reads import ListedLetter
from pipeline.letters.remembered import OTHER_LOG, Remembered
from pipeline.letters.retry import (
    ADJUSTMENT,
    CUT,
    GONE,
    RETRIED,
    SET_ASIDE,
    UNKNOWN,
    Attempt,
    Outcome,
    Plan,
    leave_out_forgotten,
    plan,
    retry,
    still_refused,
)
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame

GOOD = b'{"counter": "likes:a"}'
FRAME = FRAME_CONTENT_TYPE.encode()


def key(offset: int, *, shard: int = 3, row: int = 0, log_ms: int = 1_790_000_000_000) -> LetterKey:
    return LetterKey(shard, offset, row, log_ms)


def listed(letter: LetterKey, *, retried: bool = False) -> ListedLetter:
    return ListedLetter(letter, "not JSON", 8, "nonsense", retried)


def stored(letter: LetterKey, value: bytes = GOOD, *, cut: bool = False) -> StoredLetter:
    return StoredLetter(letter, value, len(value) + cut, None)


class FixedClock:
    def now_ms(self) -> int:
        return 77

    def monotonic_s(self) -> float:
        return 0.0


@dataclass
class World:
    """A topic, a log and a memory, all in one place; records what each was asked for."""

    topic: list[StoredLetter]
    failures: dict[LetterKey, str] = field(default_factory=dict)
    log: list[Attempt] = field(default_factory=list)
    remembered: list[LetterKey] = field(default_factory=list)

    def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
        keys = set(wanted)
        yield from (letter for letter in self.topic if letter.key in keys)

    def send(self, attempts: Sequence[Attempt]) -> Mapping[LetterKey, str]:
        self.log += [attempt for attempt in attempts if attempt.key not in self.failures]
        return self.failures

    def record_retries(self, keys: Sequence[LetterKey], retried_at_ms: int) -> None:
        assert retried_at_ms == 77
        assert set(keys) <= {attempt.key for attempt in self.log}
        self.remembered += keys

    def retry(self, planned: Plan, edited: Mapping[str, bytes] | None = None) -> Outcome:
        return retry(planned, edited, letters=self, sender=self, memory=self, clock=FixedClock())


def test_a_retry_names_its_place_and_log_time_and_keeps_its_content_type() -> None:
    letter = key(17, row=2)
    assert Attempt(letter, b"").headers() == (("tally-retry", b"17/2/1790000000000"),)
    assert Attempt(letter, b"", FRAME).headers()[1] == ("content-type", FRAME)


def test_letters_that_were_retried_or_are_forgotten_are_left_out() -> None:
    letters = [listed(key(9)), listed(key(8), retried=True), listed(key(7)), listed(key(6))]
    planned = plan([*letters, listed(key(7, shard=4))])
    assert planned.keys == [key(9), key(7), key(6), key(7, shard=4)]
    known = {place[1:] for place in (key(9), key(7))}
    memory = {3: Remembered(frozenset(known), 10, 0, 10), 4: Remembered(frozenset(), 10, 0, 10)}
    sent = leave_out_forgotten(planned, memory)
    assert sent.keys == [key(9), key(7)]
    assert sent.skipped == {RETRIED: 1, OTHER_LOG: 2}


def test_a_refused_cell_is_never_sent_as_an_event() -> None:
    planned = plan([listed(key(9, row=-1)), listed(key(9))])
    assert planned.keys == [key(9)]
    assert planned.skipped == {SET_ASIDE: 1}


def test_a_refused_adjustment_is_never_sent_as_an_event() -> None:
    # It has a counter, and would be an increment by 1.
    refused = replace(listed(key(8)), reason="adjustment: by: 0 changes nothing")
    planned = plan([refused, listed(key(9))])
    assert planned.keys == [key(9)]
    assert planned.skipped == {ADJUSTMENT: 1}


def test_with_edited_events_only_the_letters_they_name_are_meant() -> None:
    old, new = key(9, log_ms=1), key(9, log_ms=2)
    letters = [listed(new), listed(old), listed(key(8))]
    planned = plan(letters, {"3/9/0": GOOD, "5/5/5": GOOD})
    assert planned.keys == [new]
    assert planned.skipped == {UNKNOWN: 1}


def test_what_is_confirmed_is_remembered_and_the_rest_told() -> None:
    keys = [key(offset) for offset in range(5)]
    world = World(
        [stored(keys[0]), stored(keys[1], cut=True), stored(keys[2], b"nonsense"), stored(keys[3])],
        failures={keys[3]: "too large"},
    )
    outcome = world.retry(Plan(keys, Outcome().skipped))
    assert [attempt.key for attempt in world.log] == world.remembered == [keys[0]]
    assert world.log[0].value == GOOD
    assert outcome.sent == 1
    assert outcome.unsent == 4
    assert outcome.skipped == {
        CUT: 1,
        GONE: 1,
        "would be refused again: not JSON": 1,
        "Kafka did not confirm: too large": 1,
    }


def test_an_edited_event_goes_in_the_letters_stead_even_if_that_is_cut_or_gone() -> None:
    world = World([stored(key(1), b"nonsense", cut=True)])
    edited = {"3/1/0": GOOD, "3/2/0": b"still nonsense"}
    outcome = world.retry(Plan([key(1), key(2)], Outcome().skipped), edited)
    assert world.log == [Attempt(key(1), GOOD)]
    assert outcome.skipped == {"would be refused again: not JSON": 1}


def test_letters_that_were_retried_before_are_no_failure() -> None:
    outcome = World([]).retry(plan([listed(key(1), retried=True)]))
    assert (outcome.sent, outcome.unsent) == (0, 0)


def test_what_was_sent_is_remembered_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_module, "CHUNK_LETTERS", 2)
    keys = [key(offset) for offset in range(3)]

    class Failing(World):
        def find(self, wanted: Iterable[LetterKey]) -> Iterator[StoredLetter]:
            yield from super().find(wanted)
            raise TryAgainError("Kafka went away")

    world = Failing([stored(one) for one in keys])
    with pytest.raises(TryAgainError):
        world.retry(Plan(keys, Outcome().skipped))
    assert world.remembered == keys[:2]


def test_a_frame_is_refused_again_only_if_none_of_its_rows_is_good() -> None:
    mixed = encode_frame({"counter": ["likes:a", "nofamily"]})
    bad = encode_frame({"counter": ["nofamily", "nofamily"]})
    attempts = [Attempt(key(1), mixed, FRAME), Attempt(key(2), bad, FRAME), Attempt(key(3), GOOD)]
    assert list(still_refused(attempts)) == [key(2)]


def test_a_letter_is_read_back_from_its_topic() -> None:
    headers = tuple(
        (f"tally-{name}", value)
        for name, value in {
            "partition": b"3", "offset": b"17", "row": b"2", "reason": b"no", "bytes": b"9",
            "timestamp": b"1790000000000",
        }.items()
    )  # fmt: skip
    letter = read_letter(b"nonsense", headers)
    assert letter == StoredLetter(key(17, row=2), b"nonsense", 9, None)
    assert letter.is_cut
    whole_frame = read_letter(b"123456789", (*headers, ("content-type", FRAME)))
    assert whole_frame is not None
    assert (whole_frame.content_type, whole_frame.is_cut) == (FRAME, False)


@pytest.mark.parametrize("headers", [(), (("tally-partition", b"x"),)])
def test_a_message_that_is_no_letter_is_passed_over(headers: tuple[tuple[str, bytes], ...]) -> None:
    assert read_letter(b"hello", headers) is None


def test_edited_events_are_read_by_place() -> None:
    lines = [b'{"place": "3/17/0", "event": {"counter": "likes:a"}, "note": 1}\n', b"\n"]
    assert read_edited(lines) == {"3/17/0": b'{"counter": "likes:a"}'}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense", "got no JSON"),
        (b"[]", "got no object"),
        (b'{"event": {}}', "got no place"),
        (b'{"place": "3/17", "event": {}}', "got no place"),
        (b'{"place": "3/17/0", "event": "x"}', "got no event of 3/17/0"),
        (b'{"place": "1/1/1", "event": {}}', "was there before"),
    ],
)
def test_an_edited_line_that_cannot_be_used_is_named(line: bytes, complaint: str) -> None:
    with pytest.raises(BadInputError, match=f"line 2: .*{complaint}"):
        read_edited([b'{"place": "1/1/1", "event": {}}', line])
