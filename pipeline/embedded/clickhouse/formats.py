"""Content types of ClickHouse's formats, as its HTTP interface names them."""

DEFAULT_FORMAT = "TabSeparated"

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


def content_type(name: str) -> str:
    """Of a format by its name; plain text for those without a type of their own."""
    if name.startswith("CSV"):
        return "text/csv; charset=UTF-8; header=" + ("present" if "WithNames" in name else "absent")
    fitting = (kind for prefix, kind in _BY_PREFIX.items() if name.startswith(prefix))
    return next(fitting, "text/plain; charset=UTF-8")
