"""Answers of ClickHouse whose head came whole.

Python takes a connection that ends within an answer's head for the end of that head. Without a
length, and without the word that pieces follow, the body then is empty, and an empty answer to a
question is "there is none": no shard, no count, nobody live. ClickHouse always tells one of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clickhouse_connect.driver.httpclient import HttpClient
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ProtocolError

if TYPE_CHECKING:
    from clickhouse_connect.driver import Client
    from urllib3.response import BaseHTTPResponse, HTTPResponse

_WITHOUT_BODY = frozenset({204, 304})


def _whole(response: BaseHTTPResponse) -> None:
    """Raises ProtocolError for an answer that does not tell where it ends."""
    # Either may be cut off itself. A length that lacks digits is found out by the body.
    has_length = response.headers.get("content-length", "").strip().isdigit()
    has_pieces = response.headers.get("transfer-encoding", "").strip().lower() == "chunked"
    if not (has_length or has_pieces or response.status in _WITHOUT_BODY):
        response.close()
        raise ProtocolError("the connection ended within the head of an answer")


class _Connection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        response = super().getresponse()
        _whole(response)
        return response


class _TlsConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        response = super().getresponse()
        _whole(response)
        return response


class _Connections(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsConnections(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_BY_SCHEME = {"http": _Connections, "https": _TlsConnections}


def demand_whole_answers(client: Client) -> None:
    """From now on this client, and those that share its connections, take no other answer."""
    assert isinstance(client, HttpClient)
    if client.http.pool_classes_by_scheme is not _BY_SCHEME:
        client.http.pool_classes_by_scheme = _BY_SCHEME
        client.http.clear()
