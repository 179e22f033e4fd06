"""The value of a handover record, as a worker finds it in a fetch."""

from __future__ import annotations

import numpy as np

from pipeline.builds.following import HANDOVER_KEY, handovers_in
from schemas.records import Records

PROMISE = "the build that a record names, or no handover at all; never an exception"

_LOG_MS = 1_790_000_000_000


def seeds() -> list[bytes]:
    return [
        b'{"build":2}',
        b'{"build":-1,"note":"x"}',
        b'{"build":1e3}',
        b'{"build":' + b"9" * 400 + b"}",
        b'{"build":1,"\xff":"\\ud800"}',
        # Found: it ended the worker that read it, and the next one.
        b'{"build":1,"x":' + b"[" * 3000,
        b"null",
        b"",
    ]


def check(data: bytes) -> None:
    headers = (("tally-kind", b"handover"),)
    offsets, times = np.full(1, 7, np.int64), np.full(1, _LOG_MS, np.int64)
    found = handovers_in(Records(0, offsets, times, [HANDOVER_KEY], [data], [headers]))
    for one in found:
        assert (one.offset, one.written_ms) == (7, _LOG_MS)
        assert isinstance(one.build, int)
    assert len(found) <= 1
