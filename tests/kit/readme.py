"""Blocks of a Markdown page that can be run, and outputs made comparable. Pure.

```console         commands after `$ ` with the output that follows; it must be the same but for
                   times, ports, ids and how old something is
```console live    the same, of a stream that nobody can foresee: each line shown must be there
                   with other numbers and names
```python          a program; a block of `text` right after it is what it prints
```sh, ```text     not run
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(?P<kind>[a-z ]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?|\b\d\d:\d\dZ|\b[0-9.]+ s old|\b[0-9a-f]{32}\b"
)
_WINDOW = re.compile(r"TIME (\d+)")
_STALE = re.compile(r'"staleness_ms":\d+')
_PLACES = re.compile(r"seen by \d+ shards? up to offset \d+ of shard.*")
_NUMBER = re.compile(r"[0-9][0-9,.]*")
_TAG = re.compile(r"#\w+")
_SHARDS = re.compile(r"(?:N \(shard N\)(?:, | and )?)+")


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run, what is shown of it, and whether that can be foreseen."""

    kind: str
    text: str
    shown: str
    live: bool = False


def steps(page: str) -> Iterator[Step]:
    """What a reader would run, in order."""
    blocks = [(one["kind"].strip(), one["body"], one.span()) for one in _BLOCK.finditer(page)]
    for at, (kind, body, (_, end)) in enumerate(blocks):
        if kind in {"console", "console live"}:
            for part in re.split(r"(?m)^\$ ", body)[1:]:
                command, _, shown = part.partition("\n")
                yield Step("console", command, shown, live=kind.endswith("live"))
        elif kind == "python":
            after = blocks[at + 1] if at + 1 < len(blocks) else ("", "", (-1, -1))
            follows = after[0] == "text" and not page[end : after[2][0]].strip()
            yield Step("python", body, after[1] if follows else "")


def comparable(output: str) -> list[str]:
    """The lines without what differs from run to run, and without empty ones."""
    text = _STALE.sub('"staleness_ms":N', _TIMES.sub("TIME", output))
    text = _PLACES.sub("PLACES", text)
    return _one_window([" ".join(line.split()) for line in text.splitlines() if line.strip()])


def _one_window(lines: list[str]) -> list[str]:
    """Windows that follow on each other as one: a minute may be over between two commands."""
    kept: list[str] = []
    for line in lines:
        here, before = _WINDOW.fullmatch(line), _WINDOW.fullmatch(kept[-1]) if kept else None
        if here and before:
            kept[-1] = f"TIME {int(before[1]) + int(here[1])}"
        else:
            kept.append(line)
    return kept


def shapes(output: str) -> list[str]:
    """The lines with any number as N and any hashtag as #TAG."""
    found = [_TAG.sub("#TAG", _NUMBER.sub("N", line)) for line in comparable(output)]
    return [_SHARDS.sub("SHARDS ", line).replace("SHARDS and", "SHARDS") for line in found]


def agrees(step: Step, output: str) -> bool:
    """Whether the output is what the page shows."""
    if step.live:
        return set(shapes(step.shown)) <= set(shapes(output))
    return comparable(step.shown) == comparable(output)
