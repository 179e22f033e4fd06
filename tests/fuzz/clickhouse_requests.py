"""What a client asks the ClickHouse door by URL and text, up to where the engine would be asked.

An input is lines: the method, the URL's parameters, headers, and from the fourth on the query.
"""

from __future__ import annotations

from multidict import CIMultiDict
from yarl import URL

from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.lexer import tokens
from pipeline.embedded.clickhouse.request import parse_request
from pipeline.embedded.clickhouse.session_settings import assignments
from pipeline.embedded.clickhouse.statement import parse
from pipeline.embedded.clickhouse.statement_kind import Kind

PROMISE = "a statement for the engine, or ClickHouse's error with its number; in time that is short"


def seeds() -> list[bytes]:
    return [
        b"GET\nquery=SELECT+1&database=tally&param_x=1\nAccept-Encoding: gzip;q=0, zstd\n",
        b"POST\nsession_id=a&session_timeout=60&session_check=1\n\nSET a = 1, b = 'x'",
        b"POST\nclient_protocol_version=54454&max_query_size=100\n\nSELECT 'a''b\\'' FORMAT JSON",
        b"POST\ncompress=1&decompress=1\n\nINSERT INTO t (a, b) SETTINGS x = 1 FORMAT CSV\n1,2",
        b"POST\n\n\nINSERT INTO t SELECT * FROM input('a Int') FORMAT RowBinary \0\1",
        b"POST\n\n\n/* a /* b */ */ WITH 1 AS x --\nSELECT $a$text $a$, `q`, \"r\" INTO OUTFILE ''",
        b"POST\n\n\nKILL QUERY WHERE query_id = 'x' SYNC; ; ",
        b"POST\nclient_protocol_version=" + b"9" * 4400 + b"\n\nSELECT 1",
        b"GET\nquery=SELECT+1&default_format=TSV;+SELECT+2\n\n",
        b"POST\n\nX-ClickHouse-Format: CSV; DROP TABLE t\nSELECT 1",
        b"POST\n\n\nSELECT " + b"'\\" * 4000,
        b"POST\n\n\nSELECT " + b"$a$b" * 3000,
        b"POST\n\n\nINSERT INTO t VALUES ('\\" + b"('\\" * 3000,
    ]


def check(data: bytes) -> None:
    method, values, headers, query = [*data.split(b"\n", 3), b"", b"", b"", b""][:4]
    url = URL.build(path="/", query_string=values.decode("utf-8", "replace"))
    given: CIMultiDict[str] = CIMultiDict()
    for line in headers.decode("latin-1").split(","):
        name, _, value = line.partition(":")
        given[name.strip()] = value.strip()
    try:
        request = parse_request(method.decode("latin-1"), url.query.items(), given)
        statement = parse(request.query + query, request.query_size_bytes_max)
        if statement.kind is Kind.SET:
            assignments(statement.sql)
        elif statement.kind is Kind.READ:
            # What the engine is asked is one statement still: nothing of the request ends it.
            written = tokens(statement.into("/p", request.default_format))
            assert not any(one.is_sign(b";") for one in written)
    except ClickHouseError as error:
        assert str(error)
