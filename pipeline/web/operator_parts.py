"""What operators look at beside status: the plan, dead letters, builds. Functions here block."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pipeline.builds.listing import Builds
from pipeline.clickhouse import connect
from pipeline.letters.reads import LetterFilter, LetterReads
from pipeline.planning.reading import shards_now
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver import Client

    from pipeline.clock import Clock
    from pipeline.letters.reads import ListedLetter
    from schemas.settings import Settings

SAMPLES = 3
"""So many of the newest letters of each reason."""

REASONS_MAX = 20
NEWEST = 200
ANSWER_TIMEOUT_S = 10


def shard_plan(settings: Settings, clock: Clock) -> dict[str, Any]:
    """Split, hinted and hot counters. Raises TryAgainError, OperatorError."""
    return shards_now(settings, clock.now_ms()).document()


def listed_builds(settings: Settings, clock: Clock) -> dict[str, Any]:
    """The builds that were not dropped, and how far each is behind. Raises TryAgainError."""
    with _client(settings) as client:
        found = Builds(settings.kafka, client, clock).all()
    return {"builds": [one.document() for one in found]}


def dead_letters(settings: Settings) -> dict[str, Any]:
    """Those that wait, by reason, the most frequent first, each with its newest.

    Raises TryAgainError.
    """
    waiting = LetterFilter(waiting=True)
    with _client(settings) as client:
        letters = LetterReads(client)
        counted = letters.by_reason(waiting)
        newest: dict[str, list[ListedLetter]] = defaultdict(list)
        for one in letters.letters(waiting, NEWEST) if counted else ():
            newest[one.reason].append(one)
        for reason, _ in counted[:REASONS_MAX]:
            if reason not in newest:
                # A filter takes reasons that have this text in them, so they are looked at again.
                of_reason = letters.letters(LetterFilter(reason=reason, waiting=True), SAMPLES)
                newest[reason] = [one for one in of_reason if one.reason == reason]
    return {
        "total": sum(count for _, count in counted),
        "reasons": [
            {
                "reason": reason,
                "count": count,
                "samples": [_sample(one) for one in newest[reason][:SAMPLES]],
            }
            for reason, count in counted[:REASONS_MAX]
        ],
    }


def _sample(letter: ListedLetter) -> dict[str, Any]:
    return {
        "place": letter.key.place,
        "at": rfc3339(letter.key.log_ms),
        "bytes": letter.bytes_total,
        "sample": letter.sample,
    }


@contextlib.contextmanager
def _client(settings: Settings) -> Iterator[Client]:
    client = connect(settings.clickhouse, answer_timeout_s=ANSWER_TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()
