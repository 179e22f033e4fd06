"""Dead letters as somebody mended them: NDJSON with a place and the event to count instead."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pipeline.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLACE = re.compile(r"[0-9]{1,9}/[0-9]{1,18}/[0-9]{1,9}")


def read_edited(lines: Iterable[bytes]) -> dict[str, bytes]:
    """The events by place. Raises BadInputError, which names the line and what is expected.

    A place that occurs twice is refused, since only one of its events could count.
    """
    events: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place, event = _read_line(number, line)
        if place in events:
            raise BadInputError(f"line {number}: {place} was there before; leave one of them out")
        events[place] = event
    return events


def _read_line(number: int, line: bytes) -> tuple[str, bytes]:
    expected = f'line {number}: expected {{"place": "3/17/0", "event": {{...}}}}'
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise BadInputError(f"{expected}, got no JSON") from None
    if not isinstance(document, dict):
        raise BadInputError(f"{expected}, got no object")
    place, event = document.get("place"), document.get("event")
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise BadInputError(f"{expected}, got no place of the form partition/offset/row")
    if not isinstance(event, dict):
        raise BadInputError(f"{expected}, got no event of {place}")
    return place, json.dumps(event).encode()
