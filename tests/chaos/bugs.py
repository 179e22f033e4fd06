"""Bugs by what the parts of a run printed: errors that no server which is away explains."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUTS = (
    *("worker-*.txt", "web-*.txt", "log/log.txt", "clickhouse.txt"),
    *("sender-*.txt", "command-*.txt"),
)
"""What Tally's own parts and the senders print. A Kafka's output is its own."""

SHOWN_MAX = 20
BEGIN = "Traceback (most recent call last):"
INTERNAL = "tally: internal error: "
"""So a command begins to tell of what it did not expect; a traceback it prints only if asked."""

FATAL = "Fatal Python error: "
CHAINS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
CRASHED = "Crashed reason="
"""So Faust says that a worker ends since something was raised, of whoever's code."""

STOPPING = "Error while stopping child <BulkConsumerThread"
CLOSED = "RuntimeError: Event loop is closed"
"""So Faust complains of its own stop, now and then, where a worker ends after a crash."""

NO_ROOM = "OSError: [Errno 28] No space left on device"
TRY_AGAIN = re.compile(
    r"pipeline\.(errors\.TryAgainError|producer\.(buffer|receipts)\.\w+|strict\.answers"
    r"\.NotDecidedYetError|web\.counting\.NotCountedYetError|topics\.NotGrownError)(:|$)"
)
"""What Tally raises where a server is away or busy."""

AWAY = re.compile(
    r"(aiokafka\.errors\.\w+|aiohttp\.client_exceptions\.\w+|(asyncio\.exceptions\.)?TimeoutError"
    r"|asyncio\.exceptions\.(IncompleteReadError|CancelledError)|BrokenPipeError"
    r"|Connection(Reset|Refused|Aborted)?Error)(:|$)"
)
"""What clients of servers raise where one is away, or a group has moved on, or they are stopped.
Tally makes its own errors of them: so one that its own code met with unprepared is a bug."""


@dataclass(frozen=True, slots=True)
class Bug:
    """Something that a part printed or did which nothing explains that was done to it."""

    file: str
    line: int
    """From 1. Of an end: the last one that was written."""

    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def told(bugs: Sequence[Bug]) -> str:
    """A line for each of the first, and how many there are."""
    more = f"\n  and {len(bugs) - SHOWN_MAX} more" if len(bugs) > SHOWN_MAX else ""
    shown = "".join(f"\n  {bug}" for bug in bugs[:SHOWN_MAX])
    return f"{len(bugs)} bugs by what the parts printed and how they ended{shown}{more}"


def printed(folder: Path) -> list[Bug]:
    """All that the parts of a site in this folder printed. Reads files; blocks."""
    found = []
    for pattern in OUTPUTS:
        for path in sorted(folder.glob(pattern)):
            lines = path.read_text(errors="replace").splitlines()
            found += bugs_in(lines, str(path.relative_to(folder)))
    return found


def bugs_in(lines: Sequence[str], file: str) -> list[Bug]:
    """In the lines of one part's output, sorted. Pure."""
    found = [
        Bug(file, number, line.strip())
        for number, line in enumerate(lines, 1)
        if line.startswith((INTERNAL, FATAL))
    ]
    found += [
        Bug(file, one.begins + 1, f"{one.raised}, after: {one.head.strip()[:200]}")
        for one in _tracebacks(lines)
        if not one.is_explained()
    ]
    return sorted(found, key=lambda bug: bug.line)


@dataclass(frozen=True, slots=True)
class _Traceback:
    head: str
    """The line before it, by which somebody says what failed."""

    begins: int
    catcher: str
    """The file of its first frame: of who caught it."""

    raised: str
    """The line of the exception that it ends with."""

    def is_explained(self) -> bool:
        if TRY_AGAIN.match(self.raised):
            return True
        if self.raised == CLOSED:
            return STOPPING in self.head
        if not self._is_of_a_library() and CRASHED not in self.head:
            return False
        return bool(AWAY.match(self.raised)) or self.raised.startswith(NO_ROOM)

    def _is_of_a_library(self) -> bool:
        """Whether a library caught it, and told of it itself. What nobody caught is ours."""
        if self.head.startswith("Exception in thread "):
            return False
        return "/lib/python" in self.catcher or self.catcher.endswith(".pyx")


def _tracebacks(lines: Sequence[str]) -> Iterator[_Traceback]:
    """Each with those that it came of, which say no more than it does."""
    head, begins = "", -1
    for at in _beginnings(lines):
        is_chained = at >= 2 and lines[at - 2] in CHAINS  # An empty line is between.
        if not is_chained or begins < 0:
            head, begins = lines[at - 1] if at else "", at
        frames = at + 1
        end = frames
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
        raised = lines[end].strip() if end < len(lines) else "cut short"
        if lines[at].strip() != BEGIN:
            raised = f"a group of exceptions: {lines[frames:][:1]}"
        elif _is_told_next(lines, end):
            continue
        quoted = re.match(r'\s+File "([^"]+)"', lines[frames]) if frames < end else None
        yield _Traceback(head, begins, quoted[1] if quoted else "", raised)


def _beginnings(lines: Iterable[str]) -> list[int]:
    """Those within a group of exceptions are left to it."""
    return [
        at
        for at, line in enumerate(lines)
        if line.endswith(BEGIN) and not line.lstrip().startswith("|")
    ]


def _is_told_next(lines: Sequence[str], end: int) -> bool:
    """Whether another exception came of this one, whose text may have several lines."""
    for at in range(end + 1, len(lines)):
        if lines[at] in CHAINS:
            return True
        if lines[at].endswith(BEGIN):
            return False
    return False
