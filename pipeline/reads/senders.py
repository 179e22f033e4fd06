"""Other clusters whose cells are here: when they were last sent, and how far they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.rules import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.reads.reads import Reads

SILENT_MS_MAX = 600_000
"""How long nothing may come from another cluster before it is remarked."""

LISTED_MAX = 100


@dataclass(frozen=True, slots=True)
class Sender:
    """Another cluster. `behind_ms` is how old its log is up to where its cells are here.

    None while it has counted nothing.
    """

    cluster: str
    source_build: int
    exchanged_age_ms: int
    behind_ms: int | None


def senders(reads: Reads) -> list[Sender]:
    """All of them, by name. Blocks; raises TryAgainError."""
    rows = reads.rows(
        "SELECT cluster, argMax(source_build, exchanged_at), "  # noqa: S608 - a constant
        "dateDiff('millisecond', max(exchanges.exchanged_at), now64(3)), "
        "toUnixTimestamp64Milli(argMax(log_time, exchanges.exchanged_at)) FROM tally.exchanges "
        f"GROUP BY cluster ORDER BY cluster LIMIT {LISTED_MAX}"
    )
    return [
        Sender(
            str(cluster),
            int(build),
            max(0, int(age_ms)),
            max(0, reads.now_ms() - int(log_ms)) if log_ms > 0 else None,
        )
        for cluster, build, age_ms, log_ms in rows
    ]


def sender_remarks(found: Iterable[Sender]) -> Iterator[str]:
    """What somebody should know of them. Pure."""
    for sender in found:
        if sender.exchanged_age_ms > SILENT_MS_MAX:
            age = format_duration(sender.exchanged_age_ms - sender.exchanged_age_ms % 60_000)
            yield (
                f"nothing came from cluster {sender.cluster} for {age}, so that its counts here "
                "are as old; is tally exchange running there?"
            )
