"""How many names fit into one question: ClickHouse takes 128 KiB in one field of a form. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMES_BYTES_MAX = 64 << 10
"""Of the names in one question, as they are sent: half of what ClickHouse takes."""

_AROUND_BYTES = 4
"""Quotes, a comma and a space."""


def sent_bytes(name: str) -> int:
    """How long a name is in a list of names that is sent."""
    return len(name.encode()) + name.count("'") + name.count("\\") + _AROUND_BYTES


def fitting(names: Iterable[str], bytes_max: int) -> Iterator[str]:
    """The first of the names, as long as they fit together."""
    left = bytes_max
    for name in names:
        left -= sent_bytes(name)
        if left < 0:
            return
        yield name
