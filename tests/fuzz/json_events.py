"""Values of increments records: lines of bytes, each a record's value, decoded in one fetch."""

from __future__ import annotations

import numpy as np

import pipeline.native.plain  # noqa: F401 - so that its compilation is not taken for a hang
from pipeline.decode import decode
from pipeline.why_refused import DISAGREEMENT_REASON
from schemas.blobs import Blobs
from tests.kit.modelled import as_the_model_reads, fetched

PROMISE = "the fast decoder accepts, refuses and reads as the model in schemas/ does, row by row"


def seeds() -> list[bytes]:
    return [
        b'{"counter":"likes:post-42"}',
        b'{"counter":"a:b","delta":-2,"at":1790000000000,"member":"ada","region":"eu","id":"1"}',
        b'{"counter":"a:b","at":"2026-11-16T04:06:36.5+01:00"}\n{"counter":"a:b","delta":1e3}',
        b'{"counter":null,"delta":null,"at":null,"member":null,"region":null,"id":null}',
        b'{"counter":"a:b","x":[{"y":[1.5,true,"\\ud83d\\ude00"]}]}\n\n[]\n{}',
        b'{"counter":"a:b","x":"\xff"}\n{"counter":"\xc3\xa9:\xe2\x82\xac","region":"*"}',
        b'{"counter":"a:b","counter":"c:d","delta":1099511627777,"at":99999999999999999999}',
        b'{"counter":"a:b","x":' + b"[" * 201 + b"]" * 201 + b"}",
        b'{"counter":"' + b"a:" + b"b" * 255 + b'"}',
    ]


def check(data: bytes) -> None:
    values = data.split(b"\n")
    rows, refused = as_the_model_reads(values)
    # By objects, and by kernels where these can read an event.
    for given in (list(values), _blobs(data, values)):
        decoded = decode(fetched(given))
        assert decoded.columns.to_pylist() == rows
        assert [(one.offset, one.reason, one.value) for one in decoded.refused] == refused
        assert not any(one.reason == DISAGREEMENT_REASON for one in decoded.refused)


def _blobs(data: bytes, values: list[bytes]) -> Blobs:
    """The same values as places in one buffer, which a line break ends each of."""
    sizes = np.array([len(value) for value in values], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes[:-1] + 1)]).astype(np.int64)
    return Blobs(np.frombuffer(data or b"\n", np.uint8), starts, sizes)
