"""Requests as HTTP/1.1, whatever other protocol they offer to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools

if TYPE_CHECKING:
    from pipeline.web.connection import Connection

_ENDS = (b"content-length", b"transfer-encoding")


class Parser:
    """Stands for httptools' parser, which ends with the head of a request that has `Upgrade`: it
    skips the body, and uvicorn takes what comes next for another request.

    Java's HTTP client offers h2c with each request over plain HTTP. Who does not speak what is
    offered passes over the offer (RFC 9110, 7.8), and the body is one of HTTP/1.1.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parser = _parser(connection)

    def feed_data(self, data: bytes) -> None:
        """Raises HttpParserError for what is no HTTP/1.1; never HttpParserUpgrade."""
        rest = memoryview(data)
        while rest:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as offer:
                rest = rest[offer.args[0] :]
                self._go_on()
            else:
                return

    def should_upgrade(self) -> bool:
        """Whether the body will come only when the head was read again, without the offer."""
        return self._parser.should_upgrade()

    def should_keep_alive(self) -> bool:
        return self._parser.should_keep_alive()

    def get_http_version(self) -> str:
        return self._parser.get_http_version()

    def get_method(self) -> bytes:
        return self._parser.get_method()

    def _go_on(self) -> None:
        """Bring a new parser to where the body begins: the old one is past the message."""
        lines = [
            b"%s: %s\r\n" % (name, value)
            for name, value in self._connection.headers
            if name in _ENDS
        ]
        if not self._connection.cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        self._parser = _parser(self._connection)
        self._connection.is_head_known = True
        try:
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(lines))
        finally:
            self._connection.is_head_known = False


def _parser(connection: Connection) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(connection)
    # As uvicorn has it: what follows a request that ends its connection is passed over.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
