"""A file of JSON lines that survives whoever writes it, but for a line that was cut."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """Appended to by one process. What was written is there, also after `kill -9`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def begin(self) -> None:
        """Go on writing: a line that was cut in the middle must not swallow the next one."""
        os.write(self._file, b"\n")

    def write(self, lines: Iterable[Mapping[str, object]]) -> None:
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        left = memoryview(text.encode())
        while left:
            left = left[os.write(self._file, left) :]

    def close(self) -> None:
        os.close(self._file)


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """All lines that are whole. One that was cut was not sent yet, or nobody heard it."""
    for line in path.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line) if line else {}
        except ValueError:
            continue
        if isinstance(entry, dict) and entry:
            yield entry
