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
    from starlette.requests import Request

Format = Literal["json", "csv", "parquet"]

MEDIA_TYPES: dict[Format, str] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def exported(request: Request, document: dict[str, Any], asked: Format | None) -> Response | None:
    """The windows of an answer as a file; None where JSON is wanted.

    Each row has the counter, so that files of several can be put together. What the answer says of
    itself is in headers.
    """
    wanted = asked or _accepted(request.headers.get("accept", ""))
    if wanted == "json":
        return None
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
        "Cache-Control": "no-cache",
        "Tally-As-Of": document["as_of"] or "",
        "Tally-Complete": str(document["complete"]).lower(),
    }
    return Response(sink.getvalue(), 200, headers, media_type=MEDIA_TYPES[wanted])


def _accepted(header: str) -> Format:
    for name in get_args(Format):
        kind = MEDIA_TYPES.get(name, "application/json").partition(";")[0]
        if kind in header:
            return name  # type: ignore[no-any-return]  # get_args has no types
    return "json"


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
