"""An HTTP request as ClickHouse understands it. Pure: no body is read here.

Names in the URL that the HTTP interface keeps for itself are taken out; `param_…` are bound
parameters; every other name is a setting, and the engine knows whether it exists.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.form import ExternalTable, external_tables
from pipeline.embedded.clickhouse.formats import DEFAULT_FORMAT, format_name

MAX_QUERY_SIZE_BYTES = 262_144
SESSION_TIMEOUT_S_DEFAULT = 60
SESSION_TIMEOUT_S_MAX = 3600
_DIGITS_MAX = 20  # of what 64 bits hold
_SHOWN_CHARS = 40

# Quotas and roles are accepted and ignored; who may ask was decided before (entrance.py).
# How much is held back, and that errors are plain text, is the door's own choice (reply.py).
_IGNORED = frozenset(
    (
        "user",
        "password",
        "quota_key",
        "role",
        "stacktrace",
        "buffer_size",
        "http_write_exception_in_output_format",
    )
)
# The engine writes a part before it answers, whatever these say; kept out so that reads of the
# settings do not pretend otherwise.
_NEVER_EARLY = frozenset(("async_insert", "wait_for_async_insert"))
_RESERVED = frozenset(
    (
        "cancel_http_readonly_queries_on_client_close",
        "client_protocol_version",
        "close_session",
        "compress",
        "database",
        "decompress",
        "default_format",
        "enable_http_compression",
        "http_headers_progress_interval_ms",
        "http_zlib_compression_level",
        "query",
        "query_id",
        "send_progress_in_http_headers",
        "session_check",
        "session_id",
        "session_timeout",
        "wait_end_of_query",
    )
)


@dataclass(frozen=True, slots=True)
class SessionWish:
    """Which session a request belongs to."""

    id: str
    timeout_s: int
    must_exist: bool
    close: bool


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, besides the body."""

    query: bytes
    query_id: str
    database: str
    default_format: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    session: SessionWish | None
    from_get: bool
    readonly: bool
    encoding: str
    accepted_encodings: tuple[str, ...]
    native_in: bool
    native_out: bool
    wait_end: bool
    protocol_revision: int
    query_size_bytes_max: int
    tables: tuple[ExternalTable, ...] = ()


def parse_request(
    method: str,
    pairs: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    files: Mapping[str, bytes] | None = None,
) -> Request:
    """The request of a method, its decoded URL (and form) parameters, its headers and its files.

    `headers` must find names in any case. Raises ClickHouseError when a value cannot be read.
    """
    values = dict(pairs)
    tables = external_tables(values, files or {})
    settings = {
        name: value
        for name, value in values.items()
        if not (name in _RESERVED or name in _IGNORED or name in _NEVER_EARLY)
        and not name.startswith("param_")
    }
    from_get = method in ("GET", "HEAD")
    readonly = from_get or settings.get("readonly", "0") not in ("0", "")
    # On by default in engines of these days, as it is in a server of the same version.
    compressed = _flag(values, "enable_http_compression", default="1")
    return Request(
        query=values.get("query", "").encode("utf-8", "surrogateescape"),
        query_id=values.get("query_id", ""),
        database=values.get("database", "") or headers.get("X-ClickHouse-Database", ""),
        default_format=format_name(
            values.get("default_format", "")
            or headers.get("X-ClickHouse-Format", "")
            or DEFAULT_FORMAT
        ),
        settings=settings,
        parameters={n[6:]: v for n, v in values.items() if n.startswith("param_")},
        session=_session(values),
        from_get=from_get,
        readonly=readonly,
        encoding=headers.get("Content-Encoding", "").strip().lower(),
        accepted_encodings=_accepted(headers.get("Accept-Encoding", "")) if compressed else (),
        native_in=_flag(values, "decompress"),
        native_out=_flag(values, "compress"),
        wait_end=_flag(values, "wait_end_of_query"),
        protocol_revision=_number(values, "client_protocol_version", 0),
        query_size_bytes_max=_number(values, "max_query_size", MAX_QUERY_SIZE_BYTES),
        tables=tables,
    )


def _flag(values: Mapping[str, str], name: str, default: str = "0") -> bool:
    return values.get(name, default).lower() in ("1", "true", "yes", "on")


def _number(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, "")
    if not text:
        return default
    if not _is_number(text):
        raise errors.refusal(
            errors.BAD_ARGUMENTS, f"Cannot parse {name}: '{text[:_SHOWN_CHARS]}' is not a number"
        )
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _session(values: Mapping[str, str]) -> SessionWish | None:
    session_id = values.get("session_id", "")
    if not session_id:
        return None
    text = values.get("session_timeout", "") or str(SESSION_TIMEOUT_S_DEFAULT)
    if not _is_number(text):
        raise errors.refusal(
            errors.INVALID_SESSION_TIMEOUT, f"Invalid session timeout: '{text[:_SHOWN_CHARS]}'"
        )
    if int(text) > SESSION_TIMEOUT_S_MAX:
        raise errors.refusal(
            errors.INVALID_SESSION_TIMEOUT,
            f"Session timeout '{text}' is larger than max_session_timeout: {SESSION_TIMEOUT_S_MAX}",
        )
    return SessionWish(
        session_id, int(text), _flag(values, "session_check"), _flag(values, "close_session")
    )


def _accepted(header: str) -> tuple[str, ...]:
    """Names in an Accept-Encoding header, in the client's order, without those weighed 0."""
    names = []
    for part in header.split(","):
        name, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            names.append(name.strip().lower())
    return tuple(name for name in names if name)
