"""The demo's picture: what happens, what runs where, the counts, what trends, what to try. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from pipeline.ages import age
from pipeline.synthetic import burst_counter, burst_share, day_level
from schemas.addresses import with_user, without_secrets
from schemas.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from pipeline.local.demo_reads import Seen

DEFAULT_CLICKHOUSE: str = Settings.model_fields["clickhouse"].default
FAMILIES = {"hashtag": "hashtags used", "likes": "posts liked", "views": "pages viewed"}
_BAR_CELLS = 8
_BURSTS_FROM = 0.02


@dataclass(frozen=True, slots=True)
class Scene:
    """What is shown at one moment. `command` is how `tally` is called on this machine."""

    now_ms: int
    sent: int
    rate: float
    seen: Seen
    environment: Mapping[str, str] = field(repr=False)
    command: str = "tally"

    def render(self) -> RenderableType:
        """The whole picture, in lines of at most 80 cells but for addresses and commands."""
        return Stack(
            Text("An invented site: posts are liked, pages viewed, hashtags used.", style="bold"),
            Text(self._happens()),
            Text(),
            self._path(),
            Text(),
            self._counts(),
            Text(),
            self._regions(),
            self._trends(),
            Text(),
            self._to_try(),
        )

    def _happens(self) -> str:
        level = day_level(self.now_ms)
        hour = f"{self.now_ms // 3_600_000 % 24:02}:{self.now_ms // 60_000 % 60:02} UTC"
        text = f"It is {hour}, {level:.0%} of a day's mean; regions take turns with their evenings."
        if burst_share(self.now_ms) >= _BURSTS_FROM:
            name = burst_counter(self.now_ms).partition(":")[2]
            return f"{text}\nRight now {name} bursts, which nobody used before."
        return f"{text}\nEvery two minutes a hashtag that nobody used bursts."

    def _path(self) -> RenderableType:
        old = self.seen.flushed_at_ms
        behind = "no counts yet" if old is None else f"counts {age(self.now_ms - old)} old"
        grid = Table.grid(padding=(0, 2))
        grid.add_row("events", f"{self.sent:,} sent, {self.rate:,.0f} a second", "")
        grid.add_row("Kafka", self.environment["TALLY_KAFKA"], "the embedded log: keeps them")
        grid.add_row("worker", "a Faust process", "counts them, exactly")
        grid.add_row("ClickHouse", self._clickhouse, f"the embedded chDB: {behind}")
        grid.add_row("dashboard", f"http://{self.environment['TALLY_WEB']}", "open it")
        grid.columns[0].style = "dim"
        grid.columns[2].style = "dim"
        return grid

    def _counts(self) -> RenderableType:
        if not self.seen.top:
            return Text("The first counts are on their way ...", style="dim")
        grid = Table.grid(padding=(0, 3))
        shown = [family for family in FAMILIES if family in self.seen.top]
        grid.add_row(*(Text(f"{FAMILIES[one]}, last 5 min", style="bold") for one in shown))
        grid.add_row(*(_ranking(self.seen.top[one]) for one in shown))
        return grid

    def _regions(self) -> RenderableType:
        whole = sum(count for _, count in self.seen.regions) or 1
        shares = [f"{name} {count / whole:.0%}" for name, count in self.seen.regions]
        return Text.assemble(("regions   ", "dim"), " · ".join(shares) or "...")

    def _trends(self) -> RenderableType:
        if not self.seen.trends:
            return Text.assemble(
                ("trending  ", "dim"), "nothing yet: a minute is ranked when it is over"
            )
        lines = [
            f"{trend.counter.partition(':')[2]}: {trend.observed:,} where {trend.expected:,.0f} "
            f"{'was' if trend.kind == 'new' else 'were'} expected ({trend.kind})"
            for trend in self.seen.trends
        ]
        return Text.assemble(("trending  ", "dim"), ("\n" + " " * 10).join(lines))

    def _to_try(self) -> RenderableType:
        first = next(iter(self.seen.top.get("likes", [])), ("likes:post-1", 0))[0]
        url = self._clickhouse
        asked = f"SELECT window, count FROM tally.counts_1m WHERE counter = '{first}'"  # noqa: S608 - shown, not run
        where = "" if url == DEFAULT_CLICKHOUSE else f"  export TALLY_CLICKHOUSE={url}\n"
        return Text(
            "In another terminal:\n"
            f"{where}"
            f"  {self.command} count {first} --by 1m --last 10m\n"
            f"  {self.command} trending hashtag\n"
            f'  curl {url} -d "\n'
            f'    {asked}"\n'
            "Ctrl-C stops everything here and keeps the data; the next start goes on.",
            style="dim",
        )

    @property
    def _clickhouse(self) -> str:
        url = self.environment["TALLY_CLICKHOUSE"]
        plain = without_secrets(url)
        # It asks for tokens; ours is for nobody's eyes.
        return plain if plain == url else with_user(url, "default", "TOKEN")


def _ranking(top: Sequence[tuple[str, int]]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    greatest = max((count for _, count in top), default=0)
    for counter, count in top:
        bar = "█" * max(1, round(_BAR_CELLS * count / greatest)) if count > 0 else ""
        name = Text(counter.partition(":")[2], overflow="ellipsis", no_wrap=True)
        table.add_row(name, Text(f"{count:,}", justify="right"), Text(bar, style="cyan"))
    return table
