"""Bytes at a connection of the web, in pieces of any size, and an app that tells what was asked.

An input is a line, then what is sent. Each byte of the line is the size of a piece, in turn; an
empty line is one piece. What follows a zero comes again and again, until no head may be as long.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
from functools import cache

from pipeline.web.connection import HEAD_BYTES_MAX, HEADERS_MAX, PIPELINED_MAX
from tests.fuzz.web_answers import Answer, answers_of
from tests.fuzz.web_peer import EARLY, Peer, told_part
from tests.fuzz.web_requests import Reading, requests_of

PROMISE = "in any pieces the same requests, answered in order, up to what is none; bounded memory"

READ_BYTES = 64 << 10
_AGAIN_BYTES = 16 << 10
_SENT_BYTES = HEAD_BYTES_MAX + 2 * READ_BYTES

_GET = b"GET /%d?q=1 HTTP/1.1\r\nHost: here\r\n\r\n"
_POST = b"POST /%d HTTP/1.1\r\nHost: here\r\n"
_SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: here\r\n\r\n"
_H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


def seeds() -> list[bytes]:
    sized = _POST % 1 + b"Content-Length: 5\r\n\r\nhello"
    chunked = _POST % 2 + b"Transfer-Encoding: chunked\r\n\r\n"
    chunks = chunked + b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n"
    body = b"Content-Length: %d\r\n\r\n" % len(_SMUGGLED) + _SMUGGLED
    h2c, more = _POST % 1 + _H2C, _GET % 2
    return [
        b"",
        b"\n" + _GET % 1,
        b"\7\1\n" + sized + chunks + b"\r\n" + more,
        b"\n" + chunks + b"Authorization: x\r\nX-A: y\r\n\r\n" + more * 3,
        b"\x20\nHEAD /1 HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost:\r\n\r\n" + more,
        b"\n" + _GET % 1 + b"\r\n\r\nnothing that is HTTP\r\n\r\n" + more,
        b"\3\n" + sized.replace(b"Host", b"Expect: 100-continue\r\nHost") + more,
        b"\x30\n" + sized.replace(b"/", EARLY) + more,
        b"\n" + _GET[:-2] % 1 + b"Connection: close\r\n\r\n" + more,
        b"\nGET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + more,
        b"\n" + h2c + body + more,
        b"\x10\n" + h2c + body + more,
        b"\xff\n" + h2c + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + more,
        b"\n" + _POST % 1 + b"Connection: upgrade\r\nUpgrade: websocket\r\n" + body + more,
        b"\nCONNECT here:80 HTTP/1.1\r\nHost: here\r\n\r\n" + more,
        b"\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + more,
        b"\n" + chunked.replace(b"Host", b"Content-Length: 5\r\nHost") + b"0\r\n\r\n" + more,
        b"\n" + _POST % 1 + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!" + more,
        b"\nGET http://here/%C3%A9?%zz#f HTTP/1.1\r\nHost: a\r\nX-A: \xff\r\n\r\n" + more,
        b"\n" + _GET % 1 * 140,
        b"\nGET /1 HTTP/1.1\r\n" + b"a:\r\n" * 129 + b"\r\n",
        b"\nGET /1?\0aaaaaaaa",
        b"\nGET /1 HTTP/1.1\r\n\0X-B: b\r\n",
        b"\n" + chunked + b"1\r\na\r\n0\r\n\0X-B: b\r\n",
        b"\n" + chunked + b"\0" + b"1\r\na\r\n",
        b"\n\0" + _GET % 1,
        b"\n\0" + _POST % 1 + b"Content-Length: 99\r\n\r\n" + b"x" * 99,
        b"\n" + _GET % 1 * 99 + _POST % 2 + b"Content-Length: 999999\r\n\r\n\0x",
        b"\n" + _POST % 1 + b"Content-Length: 999999\r\n\r\n\0x",
    ]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # What it warns of is what people send here.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def check(data: bytes) -> None:
    line, _, sent = data.partition(b"\n")
    first, _, again = sent.partition(b"\0")
    _loop().run_until_complete(_check(list(line), first, again))


async def _check(sizes: list[int], sent: bytes, again: bytes) -> None:
    """`again` is what comes again and again, if anything does."""
    if again:
        await _is_bounded(sent, again)
        await _is_bounded_by_turns(sent, again, takes_bodies=False)
        await _is_bounded_by_turns(sent, again, takes_bodies=True)
        return
    pieces, singly = _pieces(sent, sizes), [sent[at : at + 1] for at in range(len(sent))]
    # Where nothing is answered before all has come, all hangs on the bytes alone.
    late = await _answers(singly, at_once=False)
    assert late == await _answers([sent], at_once=False)
    assert late == await _answers(pieces, at_once=False)
    # Else what is no request may come too late to take an answer's place.
    found = await _answers(pieces, at_once=True)
    most = await _answers(singly, at_once=True)
    assert _is_beginning(late, found)
    assert _is_beginning(found, most)
    _are_answers_to(most, requests_of(sent))


def _pieces(sent: bytes, sizes: list[int]) -> list[bytes]:
    """The sizes in turn; of a size of none, all that is left."""
    found, at = [], 0
    for size in itertools.cycle(sizes or [0]):
        if at >= len(sent):
            break
        found.append(sent[at : at + size] if size else sent[at:])
        at += len(found[-1])
    return found


async def _answers(pieces: list[bytes], *, at_once: bool) -> list[Answer]:
    """To requests that come in pieces, each answered before the next piece, or all at the end."""
    peer = Peer()
    for piece in pieces:
        peer.receive(piece)
        if at_once:
            await peer.settle()
    await peer.settle()
    assert peer.wire.is_closing() or not peer.wire.is_paused, "it is read on"
    found = answers_of(bytes(peer.wire.written))
    refused = [one for one in found if not one.told and one.status >= 200]
    assert [one.status for one in refused] == [400] * len(refused)
    assert found[len(found) - len(refused) :] == refused[:1], "nothing comes after a refusal"
    assert peer.wire.is_closing() or not refused
    assert peer.app.headers <= HEADERS_MAX
    await peer.leave()
    return found


def _is_beginning(some: list[Answer], more: list[Answer]) -> bool:
    """But for the refusal at its end. It would be taken for the answer to the next request, so that
    may be none that had come in whole."""
    answered, every = _to_requests(some), _to_requests(more)
    is_refused = bool(some) and some[-1].status == 400
    missing = [told for told in every[len(answered) :] if not _is_early(told)]
    return answered == every[: len(answered)] and not (is_refused and missing)


def _to_requests(answers: list[Answer]) -> list[bytes]:
    return [one.told for one in answers if one.told]


def _are_answers_to(answers: list[Answer], reading: Reading) -> None:
    answered = _to_requests(answers)
    assert len(answered) <= len(reading.requests) or not reading.ended_well
    for told, request in zip(answered, reading.requests, strict=False):
        method, path, query, names, body = told.split(b" ")
        assert method == request.method
        assert told_part(names) == request.names
        if request.target.startswith(b"/") and b"#" not in request.target:
            asked = request.target.partition(b"?")
            assert (told_part(path), told_part(query)) == (asked[0], asked[2])
        assert _is_early(told) or told_part(body) == request.body


def _is_early(told: bytes) -> bool:
    return told_part(told.split(b" ")[1]).startswith(EARLY)


async def _is_bounded(sent: bytes, again: bytes) -> None:
    """However long it goes on, no more is held of it, and no head is waited for any longer."""
    peer, piece = Peer(), again * (1 + _AGAIN_BYTES // len(again))
    steps, waited_bytes = 0, 0
    for one in [sent, *[piece] * (1 + _SENT_BYTES // len(piece))]:
        peer.receive(one)
        assert peer.held_bytes <= HEAD_BYTES_MAX + READ_BYTES
        await peer.settle()
        assert peer.wire.is_closing() or not peer.wire.is_paused, "it is read on"
        waited_bytes = waited_bytes + len(one) if peer.app.steps == steps else 0
        steps = peer.app.steps
        # What comes after an early answer may be its request's body.
        if not (peer.wire.is_closing() or peer.app.was_early):
            assert waited_bytes <= HEAD_BYTES_MAX + READ_BYTES
    answers_of(bytes(peer.wire.written))
    await peer.leave()


async def _is_bounded_by_turns(sent: bytes, again: bytes, *, takes_bodies: bool) -> None:
    """Where who reads heeds what it is told, and a request is answered when no more is read."""
    peer, piece = Peer(), again * (1 + _AGAIN_BYTES // len(again))
    peer.app.turns, peer.app.takes_bodies = asyncio.Semaphore(0), takes_bodies
    for one in [sent, *[piece] * (1 + _SENT_BYTES // len(piece))]:
        for _ in range(PIPELINED_MAX + 1):
            if peer.wire.is_paused:
                peer.app.turns.release()
                await peer.settle()
        assert peer.wire.is_closing() or not peer.wire.is_paused, "it is read on"
        peer.receive(one)
        await peer.settle()
        assert peer.held_bytes <= HEAD_BYTES_MAX + READ_BYTES
    await peer.leave()
