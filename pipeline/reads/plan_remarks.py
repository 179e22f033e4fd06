"""What somebody should know of the shard plan. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.reads.observed import PlanStatus

NAMED_MAX = 10


def plan_remarks(plan: PlanStatus) -> Iterator[str]:
    """Sentences for the status, each with what to do."""
    if plan.unreadable:
        yield plan.unreadable
    for hot in plan.capped:
        yield (
            f"{hot.counter} has {hot.rate / hot.shards:,.0f} rows a second for each of its "
            f"{hot.shards} shards, and no partition is left for more; run tally partitions "
            f"{2 * hot.shards}"
        )
    if over := sorted(plan.over_sharded):
        more = f" and {len(over) - NAMED_MAX} more" if len(over) > NAMED_MAX else ""
        yield (
            f"next to nothing to do for the shards of {', '.join(over[:NAMED_MAX])}{more}: fewer "
            "shards in tally.toml, or tally shard COUNTER --clear, would make reads cheaper"
        )
