"""Increments in a body, read by the pipeline's own decoder. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from pipeline.errors import BadInputError
from pipeline.placing import STRICT_REASON
from pipeline.produce.checking import RefusedLine, check
from pipeline.produce.reading import read_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.rules import CountingRules


@dataclass(frozen=True, slots=True)
class CheckedLines:
    """The good lines as columns, the number of each in the body, their families, and the others."""

    columns: pa.Table
    numbers: list[int]
    families: list[str]
    refused: list[RefusedLine]


def checked(body: bytes, now_ms: int) -> CheckedLines:
    """What of the body's lines are events. Raises BadInputError when there is no line at all.

    Takes up to seconds for a large body.
    """
    tables, numbers, refused = [], list[int](), list[RefusedLine]()
    for chunk in read_chunks(BytesIO(body).read):
        found = check(chunk, now_ms, None)
        bad = {line.number for line in found.refused}
        lines = range(chunk.number, chunk.number + len(chunk.lines))
        numbers += [
            number
            for number, line in zip(lines, chunk.lines, strict=True)
            if number not in bad and line.strip()
        ]
        tables.append(found.columns)
        refused += found.refused
    if not numbers and not refused:
        raise BadInputError("the body has no lines: give one JSON event per line")
    columns = pa.concat_tables(tables).combine_chunks()
    return CheckedLines(columns, numbers, _families(columns), refused)


def without(columns: pa.Table, rows: Sequence[int]) -> pa.Table:
    """The columns without some rows."""
    if not rows:
        return columns
    kept = np.ones(columns.num_rows, bool)
    kept[list(rows)] = False
    return columns.filter(pa.array(kept))


def document(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises BadInputError."""
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise BadInputError("the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadInputError("the body is not a JSON object")
    return found


def _families(columns: pa.Table) -> list[str]:
    counters = pc.unique(columns["counter"]).to_pylist()
    return sorted({counter.partition(":")[0] for counter in counters})


def of_strict(columns: pa.Table, rules: CountingRules) -> list[tuple[int, str]]:
    """The rows of strict families, which take commands alone, and why they are refused. Pure."""
    if not rules.has_strict:
        return []
    names = enumerate(columns["counter"].to_pylist())
    return [(row, STRICT_REASON) for row, name in names if rules.of(name).strict is not None]
