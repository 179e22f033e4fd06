"""What a connection of the web holds and for how long, without a socket or a clock."""

import asyncio

import pytest
from uvicorn.server import ServerState

from pipeline.web.connection import HEAD_BYTES_MAX, HEADERS_MAX, PIPELINED_MAX
from pipeline.web.limits import RECEIPT_CHARS_MAX
from tests.unit.web.peer import ASKED, BLOCK, CHUNKED, POSTED, READ, Peer, in_reads_of

ENDLESS = [
    (b"GET /health?", b"a" * READ),
    (b"GET /health HTTP/1.1\r\nX-A: ", b"a" * READ),
    (b"GET /health HTTP/1.1\r\n", b"X-B: " + b"b" * (READ - 7) + b"\r\n"),
    (b"", b"\r\n" * (READ // 2)),
    (CHUNKED + b"1\r\na\r\n0\r\nX-A: ", b"a" * READ),
    (CHUNKED + b"1\r\na\r\n0\r\n", b"X-B: b\r\n" * (READ // 8)),
    (CHUNKED + b"1;", b"a" * READ),
]
NAMES = ["a line", "a header", "headers", "lines", "a trailer", "trailers", "a chunk's head"]


@pytest.mark.parametrize(("begin", "piece"), ENDLESS, ids=NAMES)
async def test_what_is_no_body_and_never_ends_is_refused_before_more_is_held(
    begin: bytes, piece: bytes
) -> None:
    peer = Peer()
    await peer.send(begin, *[piece] * (HEAD_BYTES_MAX // READ - 1))
    assert (peer.statuses, peer.wire.ended) == ([], "")
    await peer.send(piece, piece)
    assert (peer.statuses, peer.wire.ended) == ([400], "closed")
    assert b"262144 bytes and 128 headers at most" in peer.wire.written
    assert peer.app.headers == []


async def test_a_session_of_all_partitions_and_the_longest_path_are_taken_in_any_pieces() -> None:
    peer, path, session = Peer(), b"1" * 65_000, b"1" * RECEIPT_CHARS_MAX
    head = b"GET /1?%s HTTP/1.1\r\nTally-Session: %s\r\n\r\n" % (path, session)
    for size in (1_000, READ, len(head)):
        await peer.send(*[head[at : at + size] for at in range(0, len(head), size)])
    assert (peer.statuses, peer.wire.ended) == ([200] * 3, "")


async def test_a_head_has_so_many_headers() -> None:
    for number, status in ((HEADERS_MAX, 200), (HEADERS_MAX + 1, 400)):
        peer = Peer()
        await peer.send(b"GET /1 HTTP/1.1\r\n" + b"a:\r\n" * number + b"\r\n")
        assert peer.statuses == [status]
    assert b"128 headers at most" in peer.wire.written


async def test_bodies_are_not_counted_and_trailers_are_no_headers() -> None:
    peer, size = Peer(), HEAD_BYTES_MAX + READ
    plain = POSTED + b"Content-Length: %d\r\n\r\n" % size + bytes(size)
    chunk = b"1000\r\n" + bytes(4_096) + b"\r\n"
    chunked = CHUNKED + chunk * (size // 4_096) + b"0\r\nAuthorization: x\r\n\r\n"
    small = CHUNKED + b"1\r\na\r\n" * size + b"0\r\n\r\n"
    for request in (plain, chunked, small):
        await peer.send(*[request[at : at + READ] for at in range(0, len(request), READ)])
    assert peer.statuses == [200] * 3
    assert peer.wire.written.count(b"/ %d]" % size) == 3
    assert peer.app.headers == [2, 2, 2]
    assert peer.wire.ended == ""


async def test_so_many_requests_wait_on_a_connection_and_with_one_more_it_is_closed() -> None:
    for waiting, ended in ((PIPELINED_MAX, ""), (PIPELINED_MAX + 1, "closed")):
        peer = Peer()
        peer.app.let.clear()
        await peer.send(ASKED % 1 * (1 + waiting))
        assert peer.wire.ended == ended
        assert len(peer.connection.pipeline) == PIPELINED_MAX
        peer.app.let.set()


async def test_of_bodies_that_wait_for_their_turn_no_more_is_held_than_one_read_brings() -> None:
    """One more was read with each request that was answered before."""
    peer = Peer()
    peer.app.slow = b"/99"
    peer.app.let.clear()
    quick = b"".join(ASKED % number for number in range(100))
    large = POSTED + b"Content-Length: %d\r\n\r\n" % (1 << 30)
    held_bytes = await peer.offer([quick + large, *[bytes(BLOCK)] * 150])
    assert (len(peer.statuses), peer.wire.ended) == (100, "")
    assert held_bytes <= BLOCK
    peer.app.let.set()


@pytest.mark.parametrize("bodies", [1, 20])
async def test_large_bodies_behind_a_request_that_takes_long_are_read_when_it_is_answered(
    bodies: int,
) -> None:
    peer, size = Peer(), 5 * BLOCK
    peer.app.slow = b"/1"
    peer.app.let.clear()
    large = (POSTED + b"Content-Length: %d\r\n\r\n" % size + bytes(size)) * bodies
    pieces = in_reads_of(BLOCK, ASKED % 1 + large + ASKED % 2)
    assert await peer.offer(pieces) <= BLOCK
    assert peer.statuses == [200]
    peer.app.let.set()
    assert await peer.offer(pieces) <= BLOCK
    sizes = [(path, len(body)) for path, body in peer.app.asked]
    assert sizes == [(b"/1", 0), *[(b"/", size)] * bodies, (b"/2", 0)]
    assert peer.statuses == [200] * (bodies + 2)
    assert (pieces, peer.wire.is_read, peer.wire.ended) == ([], True, "")


async def test_requests_one_after_the_other_are_not_added_up() -> None:
    peer = Peer()
    for _ in range(HEAD_BYTES_MAX // READ + 2):
        await peer.send(b"GET /1 HTTP/1.1\r\nX-A: " + b"a" * READ + b"\r\n\r\n")
    assert peer.statuses == [200] * (HEAD_BYTES_MAX // READ + 2)
    await peer.send(b"".join(ASKED % number for number in range(2_000, 2_010)))
    for _ in range(200):
        await asyncio.sleep(0)
    assert all(peer.answers(b"/%d 0]" % number) for number in range(2_000, 2_010))
    assert peer.wire.ended == ""


async def test_a_refusal_is_not_taken_for_the_answer_to_another_request() -> None:
    peer = Peer()
    peer.app.let.clear()
    await peer.send(ASKED % 1)
    await peer.send(*[b"GET /2?" + b"a" * READ] + [b"a" * READ] * (HEAD_BYTES_MAX // READ))
    assert (peer.statuses, peer.wire.ended) == ([200], "closed")


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET /1 HT", ASKED[:-2] % 1], ids=repr)
@pytest.mark.parametrize("before", [b"", ASKED % 0], ids=["at first", "after an answer"])
async def test_who_does_not_ask_in_time_is_let_go_whatever_it_has_sent(
    before: bytes, sent: bytes
) -> None:
    peer = Peer()
    await peer.send(before)
    await peer.send(sent)
    assert peer.wire.ended == ""
    peer.loop.pass_time()
    assert peer.wire.ended == "aborted"
    peer.connection.connection_lost(None)
    assert not peer.state.connections


async def test_a_body_that_comes_slowly_and_an_answer_that_goes_on_are_not_cut() -> None:
    peer = Peer()
    await peer.send(POSTED + b"Content-Length: 3\r\n\r\na")
    for part in (b"b", b"c"):
        peer.loop.pass_time()
        peer.app.let.clear()
        await peer.send(part)
    for _ in range(3):
        peer.loop.pass_time()
    assert (peer.statuses, peer.wire.ended) == ([200], "")
    peer.app.let.set()
    await peer.send()
    assert peer.answers(b"/ 3]")
    await peer.send(ASKED % 1)
    assert (peer.statuses, peer.wire.ended) == ([200, 200], "")
    peer.loop.pass_time()
    assert peer.wire.ended == "aborted"


@pytest.mark.parametrize("closing", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
async def test_who_takes_nothing_of_an_answer_is_let_go_and_who_takes_slowly_is_not(
    closing: bytes,
) -> None:
    peer = Peer()
    peer.wire.is_slow = True
    await peer.send(ASKED[:-2] % 1 + closing + b"\r\n")
    for _ in range(3):
        peer.wire.untaken_bytes -= 1
        peer.loop.pass_time()
        assert peer.wire.ended == ("closed" if closing else "")
    peer.loop.pass_time()
    assert peer.wire.ended == "aborted"


async def test_who_takes_nothing_of_an_answer_that_goes_on_is_let_go() -> None:
    peer = Peer()
    peer.wire.is_slow = True
    peer.app.let.clear()
    await peer.send(ASKED % 1)
    for _ in range(3):
        peer.connection.pause_writing()
        peer.loop.pass_time()
        peer.connection.resume_writing()
    peer.connection.pause_writing()
    peer.loop.pass_time()
    assert peer.wire.ended == ""
    peer.loop.pass_time()
    assert peer.wire.ended == "aborted"


async def test_one_connection_more_than_are_served_is_told_so_and_the_others_are_served() -> None:
    """With one more, nobody was served."""
    state = ServerState()
    first, second, third, further = (Peer(state, served_max=2) for _ in range(4))
    assert (third.wire.ended, further.wire.ended) == ("", "aborted")
    for peer in (first, third, second):
        await peer.send(ASKED % 1)
    assert [peer.statuses for peer in (first, second, third)] == [[200], [200], [503]]
    assert [peer.wire.ended for peer in (first, second, third)] == ["", "", "closed"]
    third.connection.connection_lost(None)
    first.connection.connection_lost(None)
    last = Peer(state, served_max=2)
    for peer in (last, second):
        await peer.send(ASKED % 2)
    assert [peer.statuses for peer in (last, second)] == [[200], [200, 200]]
