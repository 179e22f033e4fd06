"""What a query read and wrote, and how ClickHouse tells it in a header. Pure."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """What a query read, wrote and returned, as the engine counted it."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_ns: int = 0


def summary(counts: Counts) -> str:
    """X-ClickHouse-Summary: numbers as text, as ClickHouse writes them."""
    written = counts.written_rows
    values = {
        "read_rows": counts.read_rows or written,
        "read_bytes": counts.read_bytes or counts.written_bytes,
        "written_rows": written,
        "written_bytes": counts.written_bytes,
        "total_rows_to_read": counts.read_rows,
        "result_rows": counts.result_rows or written,
        "result_bytes": counts.result_bytes or counts.written_bytes,
        "elapsed_ns": counts.elapsed_ns,
    }
    return json.dumps({name: str(value) for name, value in values.items()}, separators=(",", ":"))
