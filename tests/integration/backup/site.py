"""A whole Tally by `tally up`, with rules that count in every way, for backups to be taken of."""

import json
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.complete.comparison import SKETCH_ERROR, SKETCHED
from tests.integration.complete.site import SETTINGS
from tests.integration.worker.events import PARTITIONS
from tests.integration.worker.offsets import committed, log_ends
from tests.kit.processes import wait_until
from tests.kit.tally import TALLY, RunningTally, tally_up

SETTLE_TIMEOUT_S = 300

# Of a record batch, as Kafka's protocol has it: offset (8 bytes), length (4), …, last delta (4).
HEADER_BYTES = 61
LENGTH_AT_BYTES = 12
LAST_DELTA_AT_BYTES = 23
LIKED = "likes"
STOCK = "stock"
RULES = f"""
[families.{SKETCHED}]
kind = "sketched"
sketch.error = {SKETCH_ERROR}

[families.{LIKED}]
once_per = "member"

[families.{STOCK}]
kind = "strict"
strict = {{ ids_kept = 5000 }}
"""


@contextmanager
def running(folder: Path) -> Iterator[RunningTally]:
    """On the data folder `folder`/data, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    rules = folder / "tally.toml"
    rules.write_text(RULES)
    with tally_up(folder, {**SETTINGS, "TALLY_CONFIG": str(rules)}) as tally:
        yield tally


def web_of(folder: Path) -> str:
    """The URL of the web API of a Tally that runs in `folder`."""
    return f"http://{json.loads((folder / 'data' / 'addresses.json').read_text())['web']}"


def command(tally: RunningTally, *arguments: str) -> str:
    """What a command prints, run in a process of its own; it must succeed."""
    done = subprocess.run(
        [*TALLY, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=SETTLE_TIMEOUT_S,
        env={**os.environ, **tally.env},
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def settle(kafka: str) -> None:
    """Block until everything that is in the log now is checkpointed."""
    ends = log_ends(kafka)
    wait_until(
        lambda: all(at >= end for at, end in zip(committed(kafka, 1), ends, strict=True)),
        f"the worker checkpoints up to {ends}",
        timeout_s=SETTLE_TIMEOUT_S,
        poll_s=0.3,
    )


def ends_in(data: Path) -> list[int]:
    """The offset after the last whole batch of each partition of the increments, by its files.

    Of a folder that nothing has run on yet: workers write heartbeats into the log as soon as they
    start, at offsets that other records had in the original.
    """
    [topic] = (data / "log" / "topics").glob("*-tally.increments")
    return [_end_of(topic / str(number)) for number in range(PARTITIONS)]


def _end_of(partition: Path) -> int:
    end = 0
    for path in sorted(partition.glob("*.log")):
        content, at = path.read_bytes(), 0
        while at + HEADER_BYTES <= len(content):
            base, length = struct.unpack_from(">qi", content, at)
            if at + LENGTH_AT_BYTES + length > len(content):
                break
            end = base + struct.unpack_from(">i", content, at + LAST_DELTA_AT_BYTES)[0] + 1
            at += LENGTH_AT_BYTES + length
    return end
