"""What a soak found, as the text of its page. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks._pages import table
from benchmarks._soak_flat import verdict

if TYPE_CHECKING:
    from benchmarks._soak_flat import Asked, Series, Verdict

PLOT = "![Memory, open files, freshness, reads and strict commands over time](soak.svg)"
UNITS = {
    "memory": "memory, MiB",
    "handles": "open files",
    "freshness": "freshness p99, ms",
    "reads": "reads over HTTP p99, ms",
    "commands": "strict commands p99, ms",
}
HEADS = (
    "watched",
    "middle third",
    "last third",
    "limit",
    "per hour",
    "known",
    "limit per hour",
    "flat",
)
SENT_SHARE_MIN = 0.95
"""Of the rate: with less the load was not what it was meant to be, and nothing is proved."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that a soak has measured.

    `watched` is by kind and name, `known` by process what of its memory is known to grow, in MiB.
    `sent_per_s` is what the load came to, `processor` the share of one that it took.
    """

    watched: dict[str, dict[str, Series]]
    known: dict[str, Series]
    asked: list[Asked]
    rate: float
    sent_per_s: float
    processor: float

    @property
    def is_sent(self) -> bool:
        """Whether the load was what it was meant to be."""
        return self.sent_per_s >= SENT_SHARE_MIN * self.rate

    def verdicts(self, seconds: float) -> list[Verdict]:
        """One of each line that was watched."""
        return [
            verdict(
                f"{UNITS[kind]}: {name}" if len(several) > 1 else UNITS[kind],
                kind,
                one,
                seconds,
                of=name,
                known=self.known.get(name) if kind == "memory" else None,
            )
            for kind, several in self.watched.items()
            for name, one in several.items()
        ]

    def is_well(self, seconds: float) -> bool:
        """Whether all was flat, asked for with success, and under the load that was meant."""
        flat = all(one.is_flat for one in self.verdicts(seconds))
        return flat and self.is_sent and all(one.is_well for one in self.asked)


def page(found: Found, seconds: float, form: str, machine: str) -> str:
    """For docs/benchmarks/soak.md; `machine` is a sentence about it."""
    sent = f"{found.sent_per_s:,.0f} of {found.rate:,.0f} events/s were sent ({form})"
    behind = "" if found.is_sent else ", **which is too few to prove anything**"
    cost = f"the load itself took {found.processor:.0%} of one processor"
    what = f"{seconds / 60:g} minutes: {sent}{behind}; {cost}. Medians. {machine}"
    asked = " ".join(_asked(one) for one in found.asked)
    rows = [_row(one) for one in found.verdicts(seconds)]
    return f"{what}\n\n{PLOT}\n\n{table(HEADS, rows)}\n\n{asked}"


def _row(one: Verdict) -> list[str]:
    slope = ("", "", "")
    if one.slope is not None:
        slope = (f"{one.slope.all:+.1f}", f"{one.slope.known:.1f}", f"{one.slope.limit:.1f}")
    thirds = (f"{one.middle:.1f}", f"{one.last:.1f}", f"{one.limit:.1f}")
    return [one.name, *thirds, *slope, "yes" if one.is_flat else "**no**"]


def _asked(one: Asked) -> str:
    so = "" if one.is_well else ": **too many**"
    return f"{one.failed} of {one.asked:,} {one.name} failed; {one.may_fail} may{so}."
