"""Bodies that are multipart forms: more URL parameters, and files that become temporary tables."""

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import BodyPartReader, web

from pipeline.embedded.clickhouse import errors

TABLES_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that lives for one query."""

    name: str
    structure: str
    format: str
    data: bytes


def is_form(http: web.Request) -> bool:
    return http.content_type == "multipart/form-data"


async def read_form(http: web.Request) -> tuple[dict[str, str], dict[str, bytes]]:
    """Fields and files of a form; raises ClickHouseError above TABLES_BYTES_MAX."""
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    size_bytes = 0
    async for part in await http.multipart():
        if not isinstance(part, BodyPartReader) or not part.name:
            continue
        content = bytes(await part.read(decode=False))
        size_bytes += len(content)
        if size_bytes > TABLES_BYTES_MAX:
            raise errors.refusal(
                errors.QUERY_IS_TOO_LARGE, f"Form is larger than {TABLES_BYTES_MAX} bytes"
            )
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
        fmt = values.pop(f"{name}_format", "") or "TabSeparated"
        tables.append(ExternalTable(name, structure, fmt, data))
    return tuple(tables)
