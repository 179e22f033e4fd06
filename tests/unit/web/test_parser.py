"""Requests that offer another protocol, as Java's HTTP client does, are answered as all others."""

import asyncio

import pytest

from tests.unit.web.peer import ASKED, CHUNKED, POSTED, READ, Peer, in_reads_of

# As Java's HTTP client sends with each request over plain HTTP.
OFFERED = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
)
SIZED = POSTED + OFFERED + b"Content-Length: %d\r\n\r\n%s"
INNER = b"POST /inner HTTP/1.1\r\nContent-Length: 1\r\n\r\na"


@pytest.mark.parametrize("size", [1, 7, READ], ids=["by byte", "in pieces", "as one"])
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (SIZED % (5, b"abcde"), b"abcde"),
        (SIZED % (len(INNER), INNER), INNER),
        (CHUNKED[:-2] + OFFERED + b"\r\n2\r\nab\r\n3\r\ncde\r\n0\r\nX-A: b\r\n\r\n", b"abcde"),
        (SIZED % (0, b""), b""),
        (POSTED + OFFERED + b"\r\n", b""),
    ],
    ids=["sized", "a request", "chunked", "of no size", "none"],
)
async def test_who_offers_another_protocol_is_answered_over_http_with_its_own_body(
    size: int, sent: bytes, body: bytes
) -> None:
    """The body was dropped, or taken for the next request, and what stood for it was counted."""
    peer = Peer()
    await peer.send(*in_reads_of(size, sent + sent + ASKED % 1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert peer.app.asked == [(b"/", body), (b"/", body), (b"/1", b"")]
    assert (peer.statuses, peer.wire.ended) == ([200] * 3, "")


async def test_a_body_behind_an_offer_that_ends_with_the_head_comes_with_the_next_read() -> None:
    peer, sent = Peer(), SIZED % (5, b"abcde")
    await peer.send(sent[:-5])
    assert peer.statuses == []
    await peer.send(sent[-5:] + ASKED % 1)
    assert peer.app.asked == [(b"/", b"abcde"), (b"/1", b"")]


async def test_an_offer_behind_a_request_that_is_being_answered_waits_with_its_body() -> None:
    peer = Peer()
    peer.app.let.clear()
    await peer.send(ASKED % 1 + SIZED % (5, b"ab"), b"cde" + ASKED % 2)
    assert peer.app.asked == [(b"/1", b"")]
    peer.app.let.set()
    await peer.send()
    assert peer.app.asked == [(b"/1", b""), (b"/", b"abcde"), (b"/2", b"")]
    assert peer.statuses == [200] * 3


@pytest.mark.parametrize(
    "ends",
    [b"HTTP/1.1\r\nConnection: close\r\n", b"HTTP/1.0\r\n"],
    ids=["that is the last", "of HTTP 1.0"],
)
async def test_behind_a_request_that_ends_the_connection_nothing_is_run(ends: bytes) -> None:
    peer = Peer()
    await peer.send(b"POST / " + ends + OFFERED + b"Content-Length: 2\r\n\r\nab" + ASKED % 1)
    assert peer.app.asked == [(b"/", b"ab")]
    assert (peer.statuses, peer.wire.ended) == ([200], "closed")


async def test_a_body_that_cannot_be_told_from_what_follows_is_refused_behind_an_offer_too() -> (
    None
):
    for offered in (b"", OFFERED):
        peer = Peer()
        await peer.send(POSTED + offered + b"Transfer-Encoding: gzip\r\n\r\n" + ASKED % 1)
        assert (peer.statuses, peer.wire.ended) == ([400], "closed")
        assert peer.app.asked == []
