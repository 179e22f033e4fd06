"""What is refused: watched as it comes, listed with its reason, and sent again after a fix."""

import contextlib
import io
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from pipeline.cli import run
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from tests.kit.processes import Process, wait_until
from tests.kit.tally import TALLY, RunningTally, tally_up

TOPIC = "tally.increments"
SHARD = 3
DAY_MS = 86_400_000
PATIENCE_S = 60

Headers = dict[str, str | bytes | None]
FRAME: Headers = {"content-type": FRAME_CONTENT_TYPE}


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTally]:
    with pytest.MonkeyPatch.context() as patch:
        # Dead letters are written with a checkpoint.
        patch.setenv("TALLY_CHECKPOINT_INTERVAL_S", "1")
        with tally_up(tmp_path_factory.mktemp("dead-letters")) as running:
            yield running


def send(
    tally: RunningTally, value: bytes, headers: Headers | None = None, *, shard: int = SHARD
) -> tuple[int, int]:
    """Append one record; its offset and the log's time of it."""
    landed: list[tuple[int, int]] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        landed.append((message.offset() or 0, message.timestamp()[1]))

    producer = Producer({"bootstrap.servers": tally.kafka})
    producer.produce(TOPIC, value, partition=shard, headers=headers, on_delivery=on_delivery)
    assert producer.flush(PATIENCE_S) == 0
    return landed[0]


def event(counter: str, **fields: object) -> bytes:
    return json.dumps({"counter": counter, **fields}).encode()


def wait_for_letters(tally: RunningTally, *places: str) -> None:
    rows = [(place,) for place in sorted(places)]
    named = ", ".join(f"'{place}'" for place in places)
    tally.wait_for(
        "SELECT DISTINCT concat(toString(shard), '/', toString(offset), '/', toString(row)) AS at "
        f"FROM tally.dead_letters WHERE at IN ({named}) ORDER BY at",
        rows,
        timeout_s=PATIENCE_S,
    )


def wait_for_total(tally: RunningTally, counter: str, total: int) -> None:
    tally.wait_for(
        f"SELECT toInt64(total) FROM tally.totals WHERE counter = '{counter}'",
        [(total,)],
        timeout_s=PATIENCE_S,
    )


def ask(tally: RunningTally, *arguments: str, code: int = 0) -> str:
    """What a command prints. It runs in this process, which saves it a start of its own."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        for name, value in tally.env.items():
            patch.setenv(name, value)
        assert run(arguments) == code, printed.getvalue()
    return printed.getvalue()


def ask_json(tally: RunningTally, *arguments: str, code: int = 0) -> Any:
    """The one document that a command prints."""
    return json.loads(ask(tally, *arguments, "--json", code=code))


def letters(tally: RunningTally, *options: str) -> dict[str, dict[str, Any]]:
    found = ask_json(tally, "dead-letters", "--limit", "1000", *options)
    # The two are asked for one after the other, and a letter may come in between.
    assert found["matching"] >= len(found["letters"])
    return {letter["place"]: letter for letter in found["letters"]}


@pytest.fixture(scope="module")
def refused(tally: RunningTally) -> dict[str, str]:
    """Places of letters of every sort, by what was wrong; all of them in one shard."""
    now_ms = time.time_ns() // 1_000_000
    frame = encode_frame({"counter": ["listed:good", "listed:bad"], "delta": [1, 0]})
    sent: dict[str, tuple[bytes, Headers]] = {
        "nonsense": (b"nonsense \x1b[2J", {}),
        "binary": (b"\xff\x00", {}),
        "late": (event("listed:late", at=now_ms - 3 * DAY_MS), {}),
        "frame": (b"not Arrow", FRAME),
        "row": (frame, FRAME),
    }
    rows = {"row": 1}
    places = {
        name: f"{SHARD}/{send(tally, value, headers)[0]}/{rows.get(name, 0)}"
        for name, (value, headers) in sent.items()
    }
    wait_for_letters(tally, *places.values())
    return places


def test_letters_are_listed_newest_first_with_their_bytes(
    tally: RunningTally, refused: dict[str, str]
) -> None:
    found = letters(tally)
    assert set(refused.values()) <= set(found)
    times = [letter["log_time"] for letter in found.values()]
    assert times == sorted(times, reverse=True)
    nonsense = found[refused["nonsense"]]
    assert nonsense["value"] == "nonsense \x1b[2J"
    assert (nonsense["reason"], nonsense["bytes"], nonsense["cut"]) == ("not JSON", 13, False)
    assert nonsense["retried"] is False
    assert found[refused["binary"]]["value"] is None
    assert found[refused["binary"]]["value_base64"] == "/wA="
    row = json.loads(found[refused["row"]]["value"])
    assert (row["counter"], row["delta"]) == ("listed:bad", 0)


def test_the_list_for_people_is_one_harmless_line_per_letter(
    tally: RunningTally, refused: dict[str, str]
) -> None:
    printed = ask(tally, "dead-letters", "--limit", "1000").splitlines()
    [line] = [line for line in printed if line.startswith(f"{refused['nonsense']} ")]
    assert "not JSON" in line
    assert line.endswith(r"nonsense \x1b[2J")
    assert (
        ask(tally, "dead-letters", "--limit", "1").splitlines()[-1].startswith("the newest 1 of ")
    )


def test_letters_are_chosen_by_reason_shard_and_time(
    tally: RunningTally, refused: dict[str, str]
) -> None:
    late = letters(tally, "--reason", "TOO LATE")
    assert refused["late"] in late
    assert refused["nonsense"] not in late
    assert set(refused.values()) <= set(letters(tally, "--shard", str(SHARD), "--last", "1h"))
    assert letters(tally, "--shard", str(SHARD + 1)) == {}
    assert letters(tally, "--since", "2100-01-01") == {}
    assert ask(tally, "dead-letters", "--since", "2100-01-01") == "no dead letters\n"


def test_letters_are_counted_by_reason(tally: RunningTally, refused: dict[str, str]) -> None:
    found = ask_json(tally, "dead-letters", "--by-reason", "--shard", str(SHARD))
    counts = {one["reason"]: one["letters"] for one in found["reasons"]}
    assert counts["not JSON"] >= 1
    assert counts["delta: 0 is not allowed"] >= 1
    assert found["letters"] == sum(counts.values()) >= len(refused)
    lines = ask(tally, "dead-letters", "--by-reason", "--reason", "delta: 0").splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["delta: 0 is not allowed"]


def test_a_mended_letter_counts_once_in_its_old_time_however_often_it_is_sent(
    tally: RunningTally, tmp_path: Path
) -> None:
    offset, log_ms = send(tally, b"{'counter': 'mended:a'}")
    place = f"{SHARD}/{offset}/0"
    wait_for_letters(tally, place)
    edited = tmp_path / "edited.ndjson"
    edited.write_text(json.dumps({"place": place, "event": {"counter": "mended:a"}}) + "\n")
    retry = ("dead-letters", "--retry", "--yes")

    unmended = ask_json(
        tally, *retry, "--last", "1h", "--reason", "not JSON", "--limit", "1", code=1
    )
    [skipped] = [one for one in unmended["skipped"] if one["reason"] != "retried before"]
    assert (unmended["sent"], skipped["letters"]) == (0, 1)
    assert skipped["reason"] == "would be refused again: not JSON"

    assert ask_json(tally, *retry, "--edited", str(edited)) == {"sent": 1, "skipped": []}
    wait_for_total(tally, "mended:a", 1)
    assert letters(tally)[place]["retried"] is True
    assert place not in letters(tally, "--waiting")
    again = ask_json(tally, *retry, "--edited", str(edited))
    assert again == {"sent": 0, "skipped": [{"reason": "retried before", "letters": 1}]}

    # As when the memory of it was lost: the log itself knows better.
    send(tally, event("mended:a"), {"tally-retry": f"{offset}/0/{log_ms}"})
    send(tally, event("mended:end"))
    wait_for_total(tally, "mended:end", 1)
    assert tally.rows(
        "SELECT toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m "
        "WHERE counter = 'mended:a'"
    ) == [(log_ms // 60_000 * 60, 1)]


def test_after_the_rules_were_widened_a_late_event_is_counted_in_its_old_window(
    tally: RunningTally,
) -> None:
    at_ms = time.time_ns() // 1_000_000 - 3 * DAY_MS
    offset, _ = send(tally, event("widened:a", at=at_ms, delta=5, id="one"))
    place = f"{SHARD}/{offset}/0"
    wait_for_letters(tally, place)
    only = ("--reason", "too late", "--limit", "1")

    # Too early: it is refused again, and becomes another letter that can be retried in turn.
    assert ask_json(tally, "dead-letters", "--retry", *only)["sent"] == 1
    wait_until(
        lambda: any(
            one != place and '"widened:a"' in (letter["value"] or "")
            for one, letter in letters(tally, "--waiting", "--reason", "too late").items()
        ),
        "a letter of the retry",
        timeout_s=PATIENCE_S,
        poll_s=0.5,
    )
    rules = {"version": 4_000_000_000_000, "families": {"widened": {"lateness_ms": 7 * DAY_MS}}}
    send(tally, json.dumps(rules).encode(), {"tally-kind": "rules"})
    assert ask_json(tally, "dead-letters", "--retry", "--waiting", *only)["sent"] == 1
    tally.wait_for(
        "SELECT toUnixTimestamp(window), toInt64(count) FROM tally.counts_1m "
        "WHERE counter = 'widened:a'",
        [(at_ms // 60_000 * 60, 5)],
        timeout_s=PATIENCE_S,
    )


def test_tail_shows_what_the_log_holds_as_ndjson(
    tally: RunningTally, refused: dict[str, str]
) -> None:
    printed = ask(tally, "tail", "--from-start", "--no-follow", "--json")
    seen = [json.loads(line) for line in printed.splitlines()]
    kinds = {one["place"]: one["kind"] for one in seen}
    # Too late is for log time to say, so the decoder lets it pass.
    assert kinds[refused["late"]] == "event"
    for name in ("nonsense", "binary", "frame", "row"):
        assert kinds[refused[name]] == "refused"
    assert "control" not in kinds.values()
    only = ask(tally, "tail", "--from-start", "--no-follow", "--refused")
    assert "listed:late" not in only
    assert r"nonsense \x1b[2J" in only


def test_tail_begins_with_the_last_records_of_a_partition(tally: RunningTally) -> None:
    offsets = [send(tally, event("lastly:a", delta=n))[0] for n in (1, 2, 3)]
    for _ in range(30):
        send(tally, b"", {"tally-kind": "heartbeat"})  # No event, so it takes no event's place.
    last = ("--last", "2", "--counter", "lastly:a")
    printed = ask(tally, "tail", *last, "--no-follow", "--json")
    seen = [json.loads(line) for line in printed.splitlines()]
    assert [one["place"] for one in seen] == [f"{SHARD}/{offset}/0" for offset in offsets[1:]]


def test_tail_follows_the_log_until_its_limit_or_a_ctrl_c(
    tally: RunningTally, tmp_path: Path
) -> None:
    follow = [*TALLY, "tail", "--family", "followed"]
    limited = Process([*follow, "--limit", "3"], output_path=tmp_path / "3.txt", env=tally.env)
    endless = Process(follow, output_path=tmp_path / "endless.txt", env=tally.env)
    with limited, endless:

        def both_have_seen() -> bool:
            send(tally, event("followed:a", region="eu"), shard=1)
            send(tally, event("other:a"), shard=2)
            return not limited.running and "followed:a" in endless.output()

        wait_until(both_have_seen, "tails show events", timeout_s=PATIENCE_S, poll_s=0.2)
        assert limited.exit_code == 0
        lines = limited.output().splitlines()
        assert len(lines) == 3
        assert all("  followed:a  +1  region=eu  1/" in line for line in lines)
        endless.send(signal.SIGINT)
        assert endless.wait(timeout_s=PATIENCE_S) == 130
        assert "other:a" not in endless.output()
        assert "Traceback" not in endless.output()


def test_tail_joins_no_group(tally: RunningTally) -> None:
    ask(tally, "tail", "--last", "1", "--no-follow")
    admin = AdminClient({"bootstrap.servers": tally.kafka, "log_level": 0})
    groups = admin.list_consumer_groups(request_timeout=20).result(timeout=30).valid
    assert [group.group_id for group in groups if "groupless" in group.group_id] == []
