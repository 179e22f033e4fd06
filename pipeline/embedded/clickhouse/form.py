"""Bodies that are multipart forms: more URL parameters, and files that become temporary tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import BodyPartReader, web
from aiohttp.http import HttpProcessingError

from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.formats import format_name
from pipeline.embedded.clickhouse.patience import next_of

TABLES_BYTES_MAX = 256 << 20

_MALFORMED = (ValueError, LookupError, AssertionError, HttpProcessingError)
"""What aiohttp raises, of all kinds, for bytes that are no form."""


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that lives for one query."""

    name: str
    structure: str
    format: str
    data: bytes


def is_form(http: web.Request) -> bool:
    return http.content_type == "multipart/form-data"


async def _content(part: BodyPartReader, room_bytes: int) -> bytes:
    """What a part holds, a piece at a time: it is refused before more than the room is read."""
    content = bytearray()
    while len(content) <= room_bytes:
        piece = await next_of(part.read_chunk())
        if not piece:
            return bytes(content)
        content += piece
    raise errors.refusal(errors.QUERY_IS_TOO_LARGE, "Form is larger than who sends it may send")


async def read_form(
    http: web.Request, bytes_max: int = TABLES_BYTES_MAX
) -> tuple[dict[str, str], dict[str, bytes]]:
    """Fields and files of a form; raises ClickHouseError above `bytes_max`, for no form, and when
    its rest does not come.
    """
    try:
        return await _read_form(http, bytes_max)
    except _MALFORMED as error:
        raise errors.refusal(
            errors.BAD_ARGUMENTS, f"Cannot read the multipart form: {str(error)[:100]}"
        ) from None


async def _read_form(http: web.Request, bytes_max: int) -> tuple[dict[str, str], dict[str, bytes]]:
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    size_bytes = 0
    parts = await http.multipart()
    while (part := await next_of(parts.next())) is not None:
        if not isinstance(part, BodyPartReader) or not part.name:
            continue
        size_bytes += len(part.name)
        content = await _content(part, bytes_max - size_bytes)
        size_bytes += len(content)
        if part.filename is None:
            fields[part.name] = content.decode("utf-8", "surrogateescape")
        else:
            files[part.name] = content
    return fields, files


def external_tables(
    values: dict[str, str], files: Mapping[str, bytes]
) -> tuple[ExternalTable, ...]:
    """Tables of the files, as `<name>_structure` or `_types` and `_format` describe them.

    Those are taken out of `values`. Raises ClickHouseError for a file that nothing describes. Pure.
    """
    tables = []
    for name, data in files.items():
        structure = values.pop(f"{name}_structure", "")
        types = values.pop(f"{name}_types", "")
        if types:
            structure = ", ".join(f"_{n} {t}" for n, t in enumerate(types.split(","), 1))
        if not structure:
            raise errors.refusal(
                errors.BAD_ARGUMENTS,
                f"Neither structure nor types have been provided for external table {name}",
            )
        fmt = format_name(values.pop(f"{name}_format", "") or "TabSeparated")
        tables.append(ExternalTable(name, structure, fmt, data))
    return tuple(tables)
