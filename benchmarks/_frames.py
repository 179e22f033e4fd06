"""Events packed into frames, as a producer that wants to be quick sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.frames import encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._events import Event

FIELDS = ("counter", "delta", "at", "member", "region")


def as_frames(events: Sequence[Event], at_once: int) -> list[bytes]:
    """The events in order, so many in each frame."""
    return [
        encode_frame(
            {
                name: [getattr(event, name) for event in events[start : start + at_once]]
                for name in FIELDS
            }
        )
        for start in range(0, len(events), at_once)
    ]
