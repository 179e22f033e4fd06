"""What a page of docs/ shows in a terminal, run on a real Tally and compared, or written anew.

    python -m tests.kit.shown --write docs/tutorial.md docs/how-to/likes.md

A page shows files, as fenced blocks with a title, and commands, as indented lines that begin with
`$ `; what follows up to the next one or the end of the block is what was printed. `…` stands for
anything. Of times, durations, offsets and random ids only the form is compared. A receipt or a
place that was printed is known by what the page shows for it, wherever a later command has that.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.up import Found, running_up

PROMPT = "    $ "
INDENT = "    "
PATIENCE_S = 60.0
COMMAND_S = 600.0
_FENCE = re.compile(r'```\w+ title="(?P<name>[^"]+)"')
_SHOWN_ADDRESSES = {
    "kafka": "127.0.0.1:19092",
    "clickhouse": "127.0.0.1:18123",
    "web": "127.0.0.1:8321",
}
# What changes something is run once, unless it has an id, by which it is done once however often it
# is asked for; anything else is asked again until it is as shown.
_ONCE_BY_ID = re.compile(r"-X POST.*\"id\"")
_CHANGES = re.compile(
    r"tally (?:produce|adjust|reset|replay|shard|rules apply)|--retry|-X POST|increments|python "
)
_NAMED = (re.compile(r'"receipt":\s*"([^"]+)"'), re.compile(r"^(\d+/\d+/\d+)\b", re.MULTILINE))
_FORMS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\b\d+/\d+/\d+\b"), "PLACE"),
    (re.compile(r'"receipt":\s*"[^"]+"'), "RECEIPT"),
    (re.compile(r'("staleness_ms":\s*)\d+'), r"\1N"),
    (re.compile(r"version \d{13}"), "version N"),
    (re.compile(r"\bfor \d+[smhd]\b"), "for SOME TIME"),
    (re.compile(r"\b[\d,.]+ (?:s|ms|MB|records)\b"), "AMOUNT"),
    (re.compile(r"(offset|flushed:|shards?) [\d,]+"), r"\1 N"),
    (re.compile(r"[\d,]+ (?:\(|of )shard N\)?"), "N of shard N"),
    (re.compile(r" +"), " "),
)


@dataclass
class Step:
    """A command with what the page shows for it, at lines `first` up to `end`."""

    command: str
    shown: list[str]
    first: int
    end: int


@dataclass
class File:
    """A file that the page tells its reader to write."""

    name: str
    text: str


@dataclass
class Terminal:
    """Where a page's commands are run: a folder, a Tally, and names that were printed so far."""

    folder: Path
    found: Found
    names: dict[str, str] = field(default_factory=dict)

    def write(self, file: File) -> None:
        (self.folder / file.name).write_text(self._ours(file.text))

    def run(self, command: str) -> str:
        """What it prints on both streams; never raises for an exit code."""
        done = subprocess.run(
            ["bash", "-c", self._ours(command)],
            cwd=self.folder,
            env={**os.environ, **self._environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return self._as_shown(done.stdout)

    def printed(self, step: Step) -> str:
        """What the step prints, asked again and again while it is not as shown and may be."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            text = self.run(step.command)
            if agrees(step.shown, text) or (
                _CHANGES.search(step.command) and not _ONCE_BY_ID.search(step.command)
            ):
                return text
            if time.monotonic() > until_s:
                return text
            time.sleep(0.5)

    def learn(self, step: Step, text: str) -> None:
        """Know receipts and places by what the page shows for them."""
        shown = "\n".join(step.shown)
        for pattern in _NAMED:
            for theirs, ours in zip(pattern.findall(shown), pattern.findall(text), strict=False):
                self.names[theirs] = ours

    def _environment(self) -> Mapping[str, str]:
        binaries = str(Path(sys.executable).parent)
        return {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "TALLY_KAFKA": self.found.kafka,
            "TALLY_CLICKHOUSE": f"http://{self.found.clickhouse}",
        }

    def _ours(self, text: str) -> str:
        for name, address in _SHOWN_ADDRESSES.items():
            text = text.replace(address, getattr(self.found, name))
        for theirs, ours in self.names.items():
            text = re.sub(rf"(?<![\d:/]){re.escape(theirs)}(?![\d:/])", ours, text)
        return text

    def _as_shown(self, text: str) -> str:
        for name, address in _SHOWN_ADDRESSES.items():
            text = text.replace(getattr(self.found, name), address)
        return text


def agrees(shown: list[str], printed: str) -> bool:
    """Whether a page may show this for what was printed."""
    wanted = re.escape(_form("\n".join(shown))).replace("…", ".*")
    return re.fullmatch(wanted, _form(printed), re.DOTALL) is not None


def _form(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    joined = "\n".join(lines)
    for pattern, instead in _FORMS:
        joined = pattern.sub(instead, joined)
    return joined


def parts(page: str) -> Iterator[Step | File]:
    """Files and commands of a page in their order."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence:
            end = lines.index("```", at + 1)
            yield File(fence["name"], "\n".join(lines[at + 1 : end]) + "\n")
            at = end
        elif lines[at].startswith(PROMPT):
            end = at + 1
            while end < len(lines) and _goes_on(lines, end):
                end += 1
            shown = [line.removeprefix(INDENT) for line in lines[at + 1 : end]]
            command = lines[at].removeprefix(PROMPT)
            yield Step(command.partition("   #")[0], shown, at + 1, end)
            at = end - 1
        at += 1


def _goes_on(lines: list[str], at: int) -> bool:
    return lines[at].startswith(INDENT) and not lines[at].startswith(PROMPT)


def rewritten(page: str, terminal: Terminal) -> str:
    """The page with what its commands print now; what is shown with `…` stays as it is."""
    lines = page.splitlines()
    moved = 0
    for part in list(parts(page)):
        if isinstance(part, File):
            terminal.write(part)
            continue
        text = terminal.printed(part)
        terminal.learn(part, text)
        if agrees(part.shown, text):
            continue
        print(f"$ {part.command}\n{text}", file=sys.stderr)
        if "…" in "".join(part.shown):
            continue
        new = [f"{INDENT}{line}".rstrip() for line in text.rstrip().splitlines()]
        lines[part.first + moved : part.end + moved] = new
        moved += len(new) - len(part.shown)
        terminal.learn(Step(part.command, text.splitlines(), 0, 0), text)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs pages on one Tally of their own, and writes them with --write."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.shown", description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_up(Path(folder) / "data") as found:
        for number, page in enumerate(asked.pages):
            room = Path(folder) / str(number)
            room.mkdir()
            text = page.read_text()
            new = rewritten(text, Terminal(room, found))
            print(f"{page}: {'as shown' if new == text else 'differs'}")
            if asked.write and new != text:
                page.write_text(new)


if __name__ == "__main__":
    main()
