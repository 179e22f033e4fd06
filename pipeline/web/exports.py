"""Windows as tables for other programs: CSV and Parquet."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

Format = Literal["json", "csv", "parquet"]

MEDIA_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def exported(document: dict[str, Any], wanted: Format, kept: Mapping[str, str]) -> Response:
    """The windows of an answer as a file, with headers that say who may keep it.

    Each row has the counter, so that files of several can be put together. What the answer says of
    itself is in headers. Takes some tenths of a second where there are many windows.
    """
    table = _table(document)
    sink = io.BytesIO()
    if wanted == "csv":
        pa_csv.write_csv(table, sink)
    else:
        moments = pc.strptime(table["window"], "%Y-%m-%dT%H:%M:%SZ", "s")
        stamped = moments.cast(pa.timestamp("s", "UTC"))
        pa_parquet.write_table(table.set_column(1, "window", stamped), sink)
    headers = {
        "Content-Disposition": f'attachment; filename="windows.{wanted}"',
        **kept,
        "Tally-As-Of": document["as_of"] or "",
        "Tally-Complete": str(document["complete"]).lower(),
    }
    return Response(sink.getvalue(), 200, headers, media_type=MEDIA_TYPES[wanted])


def accepted(header: str) -> Format:
    """The format that the header Accept names first, of those there are; else JSON. Pure."""
    names: dict[int, Format] = {header.find(_kind(name)): name for name in get_args(Format)}
    places = [place for place in names if place >= 0]
    return names[min(places)] if places else "json"


def _kind(name: Format) -> str:
    return MEDIA_TYPES.get(name, "application/json").partition(";")[0]


def _table(document: dict[str, Any]) -> pa.Table:
    rows = document["windows"]
    estimated = any("low" in row for row in rows)
    columns: dict[str, Any] = {
        "counter": pa.array([document["counter"]] * len(rows), pa.string()),
        "window": pa.array([row["window"] for row in rows], pa.string()),
        "count": _numbers([row["count"] for row in rows]),
    }
    if estimated:
        for name in ("low", "high"):
            columns[name] = _numbers([row.get(name) for row in rows])
    return pa.table(columns)


def _numbers(values: list[int | None]) -> pa.Array:
    """Whole numbers; counts are wider than 64 bits, though hardly ever."""
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return pa.array([None if one is None else Decimal(one) for one in values])
