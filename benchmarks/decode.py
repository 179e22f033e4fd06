"""What decoding costs: `decode` on JSON and on frames, beside json.loads and the pydantic model.

Run: python -m benchmarks.decode [EVENTS]. All are measured in one run, warm, best of five, in the
time this process had on processors, so that the ratios hold on a busy machine.
"""

import json
import random
import sys
import time
from collections.abc import Callable

import msgspec

from pipeline.decode import decode
from schemas.events import FIELDS, Event
from schemas.frames import FRAME_CONTENT_TYPE, encode_frame
from schemas.records import Headers
from tests.kit.modelled import LOG_MS, fetched

SEED = 1
ROUNDS = 5
ROWS_PER_FRAME = 10_000
FRAME_HEADERS: Headers = (("content-type", FRAME_CONTENT_TYPE.encode()),)


class Fields(msgspec.Struct, gc=False):
    """What msgspec alone makes of an event: the floor under any decoder that uses it."""

    counter: str
    delta: int = 1
    at: int | str | None = None
    member: str | None = None
    region: str = ""
    id: str | None = None


def short_events(count: int) -> list[dict[str, object]]:
    """The least a producer sends: counter and time."""
    chance = random.Random(SEED)
    return [
        {"counter": f"likes:post-{chance.randrange(10_000)}", "at": LOG_MS + number}
        for number in range(count)
    ]


def full_events(count: int) -> list[dict[str, object]]:
    """Every field set."""
    chance = random.Random(SEED)
    return [
        {
            "counter": f"likes:post-{chance.randrange(10_000)}",
            "delta": 1,
            "at": LOG_MS + number,
            "member": f"user-{chance.randrange(100_000)}",
            "region": "eu",
            "id": f"{chance.getrandbits(64):016x}",
        }
        for number in range(count)
    ]


def as_frames(events: list[dict[str, object]]) -> list[bytes]:
    frames = []
    for start in range(0, len(events), ROWS_PER_FRAME):
        part = events[start : start + ROWS_PER_FRAME]
        columns = {name: [event[name] for event in part] for name in FIELDS if name in part[0]}
        frames.append(encode_frame(columns))
    return frames


def best_ns(run: Callable[[], object], events: int) -> float:
    """Nanoseconds per event of the quickest of some rounds, after one that is not counted."""
    run()
    spent = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        run()
        spent.append(time.process_time_ns() - started)
    return min(spent) / events


def report(name: str, events: list[dict[str, object]]) -> None:
    values = [json.dumps(event, separators=(",", ":")).encode() for event in events]
    one_bad = [*values[:-1], b'{"counter":"likes"}']
    sample = values[: len(values) // 10]
    records = fetched(values)
    frames = fetched(as_frames(events), FRAME_HEADERS)
    spoiled = fetched(one_bad)
    typed = msgspec.json.Decoder(Fields)
    assert decode(records).columns.num_rows == decode(frames).columns.num_rows == len(events)
    figures = {
        "json.loads": best_ns(lambda: list(map(json.loads, values)), len(values)),
        "pydantic": best_ns(lambda: list(map(Event.model_validate_json, sample)), len(sample)),
        "msgspec, no columns": best_ns(lambda: list(map(typed.decode, values)), len(values)),
        "decode, JSON": best_ns(lambda: decode(records), len(values)),
        "decode, JSON, one bad": best_ns(lambda: decode(spoiled), len(values)),
        "decode, frames": best_ns(lambda: decode(frames), len(values)),
    }
    print(f"{name}: {len(events)} events, {len(values[0])} bytes each as JSON")
    for label, spent_ns in figures.items():
        print(
            f"  {label:<24}{spent_ns / 1000:9.4f} us per event"
            f"{figures['json.loads'] / spent_ns:9.2f} x json.loads"
            f"{figures['pydantic'] / spent_ns:9.2f} x pydantic"
        )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    report("short", short_events(count))
    report("full", full_events(count))


if __name__ == "__main__":
    main()
