"""`tally replay`: count the log again as a new build, compare it, take it."""

import contextlib
import getpass
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.amounts import amount
from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import moment_ms
from pipeline.clock import SystemClock
from pipeline.interrupts import Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipeline.builds.comparing.compare import Comparison, Scope
    from pipeline.builds.progress import Progress
    from pipeline.builds.rebuilds import Rebuild
    from schemas.settings import Settings

ANSWER_TIMEOUT_S = 3600
"""Earlier days are copied by one statement for each table."""

TOLD_EVERY_S = 10.0


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    check: Annotated[
        bool, typer.Option("--check", help="Compare it with the live build when it has caught up.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", help="Make it the live build when it has caught up.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that count.")] = 2,
    build: Annotated[
        int | None, typer.Option(min=1, help="Go on with this build.", show_default=False)
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Begin another one, though one is not taken yet.")
    ] = False,
    newest_rules: Annotated[
        bool, typer.Option("--newest-rules", help="Count history by the rules that hold now.")
    ] = False,
    family: Annotated[str | None, typer.Option(help="Compare this family alone.")] = None,
    counter: Annotated[str | None, typer.Option(help="Compare this counter alone.")] = None,
    since: Annotated[str | None, typer.Option(help="Compare windows from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Compare windows before this time.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Count the log again as a new build, beside the live one, which goes on.

    Ctrl-C stops it in order, and the same command goes on where it stopped. Several of them, on
    several machines, share the work. With --check, the exit code is 1 if the builds differ, and
    --swap then swaps nothing. With --swap, every view turns to the new build at once, and workers
    that follow the live build go on with it.

    Example: `tally replay --check`, then `tally replay --swap`
    """
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    if build is not None and (new or newest_rules):
        raise typer.BadParameter("--build goes on with a build, --new and --newest-rules begin one")
    settings, clock = load_settings(), SystemClock()
    with Interrupts(clock) as interrupts, contextlib.ExitStack() as open_things:
        run = _Run(settings, interrupts, open_things, quiet=json)
        run.begin(build, workers, new=new, by_newest_rules=newest_rules)
        run.catch_up()
        if check and not run.stopped:
            run.compare(_scope(family, counter, since, until))
        if swap and not run.stopped and not run.differs:
            run.swap()
    if json:
        print_json(run.document())
    return int(run.stopped or run.differs)


class _Run:
    """What the command does, step by step, with what it tells about it."""

    def __init__(
        self,
        settings: "Settings",
        interrupts: Interrupts,
        open_things: contextlib.ExitStack,
        *,
        quiet: bool,
    ) -> None:
        from pipeline.builds.replay import Replay  # noqa: PLC0415 - brings the clients
        from pipeline.clickhouse import connect  # noqa: PLC0415
        from pipeline.control.prepare import make_tables_and_topics  # noqa: PLC0415

        make_tables_and_topics(settings)
        self._settings = settings
        self._clock = SystemClock()
        self._open_things = open_things
        self._client = connect(settings.clickhouse, answer_timeout_s=ANSWER_TIMEOUT_S)
        open_things.callback(self._client.close)
        self._replay = Replay(
            settings.kafka, self._client, self._clock, interrupts, replica=settings.replica
        )
        self._interrupts = interrupts
        self._quiet = quiet
        self._rebuild: Rebuild | None = None
        self._comparison: Comparison | None = None
        self._was: int | None = None
        self._done = 0
        self.stopped = False

    @property
    def differs(self) -> bool:
        """Whether a comparison found a difference, or could not compare all."""
        found = self._comparison
        return found is not None and (found.differs or not found.complete)

    @property
    def build(self) -> int:
        """The build that is counted."""
        assert self._rebuild is not None
        return self._rebuild.build

    def begin(self, build: int | None, workers: int, *, new: bool, by_newest_rules: bool) -> None:
        """Choose the build, carry older days over, start the workers."""
        from pipeline.builds.crew import Crew  # noqa: PLC0415

        rebuild = self._replay.choose(
            build, new=new, by_newest_rules=by_newest_rules, note=f"by {getpass.getuser()}"
        )
        self._rebuild = rebuild
        self._tell(_headline(rebuild))
        self._replay.carry_base(rebuild, lambda table: self._tell(f"carrying over {table}"))
        self._crew = self._open_things.enter_context(Crew(rebuild.build, workers))

    def catch_up(self) -> None:
        """Until the build is as far as the log."""
        with _shown(self._tell, quiet=self._quiet) as show:
            progress = self._replay.catch_up(self.build, self._crew, show)
        self.stopped = progress is None
        if progress is None:
            self._tell(f"stopped; `tally replay --build {self.build}` goes on")
        else:
            self._done = progress.done
            self._tell(f"build {self.build} has caught up: {amount(progress.done, 'record')}")

    def compare(self, scope: "Scope") -> None:
        """With the live build."""
        from pipeline.builds.comparing.compare import lines  # noqa: PLC0415
        from pipeline.builds.comparing.patience import compare_patiently  # noqa: PLC0415
        from pipeline.builds.live import live_build  # noqa: PLC0415

        live = live_build(self._client)
        self._comparison = compare_patiently(
            self._client,
            live,
            self.build,
            scope,
            clock=self._clock,
            go_on=self._goes_on,
            tell=self._tell,
        )
        self.stopped = self._interrupts.asked
        for line in lines(self._comparison):
            self._tell(printable(line))
        if self.differs:
            self._tell(f"`tally replay --build {self.build} --swap` takes it all the same")

    def swap(self) -> None:
        """Make it live, and stay until somebody else counts it."""
        from pipeline.builds.live import live_build  # noqa: PLC0415
        from pipeline.builds.swap import swap  # noqa: PLC0415
        from pipeline.rollup.leaders_pass import roll_up_with  # noqa: PLC0415

        if live_build(self._client) == self.build:
            self._tell(f"build {self.build} is live: somebody else made it so")
        else:
            note = f"replay, by {getpass.getuser()}"
            settings = self._settings.model_copy(update={"build": self.build})
            self._tell(f"rolling up build {self.build}, then making it live")
            self._was = swap(
                settings.kafka,
                self._client,
                self.build,
                self._clock,
                note,
                roll_up=roll_up_with(settings, self._clock),
            )
            self._tell(f"build {self.build} is live; build {self._was} was")
        if not self._replay.wait_for_others(self.build, self._crew):
            self._tell(
                f"no other worker counts build {self.build} yet, so this command goes on until one "
                "does: start workers without TALLY_BUILD"
            )
            if not self._replay.wait_for_others(self.build, self._crew, math.inf):
                return
        self._tell("other workers go on with it")

    def document(self) -> dict[str, Any]:
        """For JSON."""
        assert self._rebuild is not None
        return {
            "build": self.build,
            "counts_from_ms": self._rebuild.counts_from_ms,
            "base": self._rebuild.base,
            "caught_up": not self.stopped,
            "records": self._done,
            "check": self._comparison.document() if self._comparison else None,
            "swapped": self._was is not None,
            "was": self._was,
        }

    def _goes_on(self) -> bool:
        self._crew.look()
        return not self._interrupts.asked

    def _tell(self, line: str) -> None:
        if not self._quiet:
            write_line(line)


def _headline(rebuild: "Rebuild") -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    rules = " by the rules that hold now" if rebuild.rules else ""
    if not rebuild.counts_from_ms:
        return f"build {rebuild.build} counts the whole log{rules}"
    day = datetime.fromtimestamp(rebuild.counts_from_ms / 1000, UTC)
    return (
        f"build {rebuild.build} counts from {day:%Y-%m-%d} on{rules}; what is older is carried "
        f"over from build {rebuild.base}, since the log's beginning was deleted"
    )


def _scope(
    family: str | None, counter: str | None, since: str | None, until: str | None
) -> "Scope":
    from pipeline.builds.comparing.compare import Scope  # noqa: PLC0415 - brings the client

    since_ms, until_ms = (None if text is None else moment_ms(text) for text in (since, until))
    return Scope(family, counter, since_ms, until_ms)


@contextlib.contextmanager
def _shown(tell: "Callable[[str], None]", *, quiet: bool) -> "Iterator[Callable[[Progress], None]]":
    """A bar that is redrawn on terminals; elsewhere a line now and then."""
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    out, clock = console(), SystemClock()
    if quiet or not out.is_terminal:
        told_s = [clock.monotonic_s()]

        def now_and_then(progress: "Progress") -> None:
            if clock.monotonic_s() - told_s[0] >= TOLD_EVERY_S:
                told_s[0] = clock.monotonic_s()
                tell(progress.line())

        yield now_and_then
        return
    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"))
    with Bar(*columns, console=out, transient=True) as bar:
        task = bar.add_task("reading the log", total=None)
        yield lambda progress: bar.update(
            task, total=progress.total, completed=progress.done, description=progress.line()
        )
