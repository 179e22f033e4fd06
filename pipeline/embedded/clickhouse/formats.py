"""Names of ClickHouse's formats, and their content types as its HTTP interface names them."""

import re

from pipeline.embedded.clickhouse import errors

DEFAULT_FORMAT = "TabSeparated"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_SHOWN_CHARS = 40
_NDJSON = "application/x-ndjson; charset=UTF-8"
_BINARY = "application/octet-stream"

# The first prefix that fits decides, so the longer names come first.
_BY_PREFIX = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "JSONEachRow": _NDJSON,
    "JSONLines": _NDJSON,
    "JSONCompactEachRow": _NDJSON,
    "JSONStringsEachRow": _NDJSON,
    "JSON": "application/json; charset=UTF-8",
    "XML": "application/xml; charset=UTF-8",
    "Native": _BINARY,
    "RowBinary": _BINARY,
    "Parquet": _BINARY,
    "Arrow": _BINARY,
    "ORC": _BINARY,
    "Avro": _BINARY,
    "MsgPack": _BINARY,
}


def format_name(text: str) -> str:
    """A format that a request names apart from its statement, which becomes a part of that.

    Raises ClickHouseError for what is no name: it could end the statement and begin another.
    Whether there is such a format the engine knows.
    """
    if _NAME.fullmatch(text) is None:
        raise errors.refusal(errors.UNKNOWN_FORMAT, f"Unknown format {text[:_SHOWN_CHARS]!r}")
    return text


def content_type(name: str) -> str:
    """Of a format by its name; plain text for those without a type of their own."""
    if name.startswith("CSV"):
        return "text/csv; charset=UTF-8; header=" + ("present" if "WithNames" in name else "absent")
    fitting = (kind for prefix, kind in _BY_PREFIX.items() if name.startswith(prefix))
    return next(fitting, "text/plain; charset=UTF-8")
