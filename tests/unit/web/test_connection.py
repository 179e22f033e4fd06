"""What a connection of the web holds and for how long, without a socket or a clock."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from pipeline.web.connection import HEAD_BYTES_MAX, HEADERS_MAX, PIPELINED_MAX, Connection
from pipeline.web.limits import RECEIPT_CHARS_MAX

READ = 64 << 10
BLOCK = 256 << 10
ASKED = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
POSTED = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POSTED + b"Transfer-Encoding: chunked\r\n\r\n"
# As Java's HTTP client sends with each request over plain HTTP.
OFFERED = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
)
SIZED = POSTED + OFFERED + b"Content-Length: %d\r\n\r\n%s"
INNER = b"POST /inner HTTP/1.1\r\nContent-Length: 1\r\n\r\na"
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


class Wire:
    """A transport that notes what is done with it; what is written is taken at once, or never."""

    def __init__(self) -> None:
        self.written = b""
        self.untaken_bytes = 0
        self.ended = ""
        self.is_slow = False
        self.is_read = True

    def write(self, data: bytes) -> None:
        self.written += data
        self.untaken_bytes += len(data) if self.is_slow else 0

    def get_write_buffer_size(self) -> int:
        return self.untaken_bytes

    def get_extra_info(self, _name: str) -> None:
        return None

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Loop:
    """Runs tasks, but its time passes only by `pass_time`."""

    def __init__(self) -> None:
        self._due: list[tuple[Any, Callable[[], None]]] = []

    def create_task(self, coroutine: Any) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    def call_later(self, _delay_s: float, what: Callable[[], None]) -> Any:
        handle = asyncio.TimerHandle(0, lambda: None, (), asyncio.get_running_loop())
        self._due.append((handle, what))
        return handle

    def pass_time(self) -> None:
        """As long as each may wait that waits now."""
        due, self._due = self._due, []
        for handle, what in due:
            if not handle.cancelled():
                what()


class App:
    """Answers each request, or the `slow` one, with its path and the length of its body when it is
    let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.let.set()
        self.slow = b""
        self.headers: list[int] = []
        self.asked: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        size = len(body)
        self.headers.append(len(scope["headers"]))
        self.asked.append((scope["raw_path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[", "more_body": True})
        if self.slow in (b"", scope["raw_path"]):
            await self.let.wait()
        await send({"type": "http.response.body", "body": b"%s %d]" % (scope["raw_path"], size)})


class Peer:
    """One connection, and what happens to it."""

    def __init__(self, state: ServerState | None = None, served_max: int = 1) -> None:
        self.app, self.wire, self.loop = App(), Wire(), Loop()
        config = uvicorn.Config(self.app, lifespan="off", log_config=None, access_log=False)
        config.load()
        self.state = state or ServerState()
        self.connection = Connection(
            config,
            self.state,
            {},
            cast("Any", self.loop),
            served_max=served_max,
            connections_max=served_max + 1,
        )
        self.connection.connection_made(cast("Any", self.wire))

    async def send(self, *pieces: bytes) -> None:
        """Each as one read, while the connection is open; then what was asked is done."""
        for piece in pieces:
            if not self.wire.ended:
                self.connection.data_received(piece)
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)

    async def offer(self, pieces: list[bytes]) -> int:
        """Each as one read, taken off when the connection reads. The most that it held at once of
        bodies whose requests wait for their turn."""
        held_bytes = 0
        for _ in range(50 + 10 * len(pieces)):
            if pieces and self.wire.is_read and not self.wire.ended:
                self.connection.data_received(pieces.pop(0))
                waiting = (cycle for cycle, _ in self.connection.pipeline)
                held_bytes = max(held_bytes, sum(len(cycle.body) for cycle in waiting))
            await asyncio.sleep(0)
        return held_bytes

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.wire.written.split(b"HTTP/1.1 ")[1:]]

    def answers(self, path: bytes) -> bool:
        return path in self.wire.written


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


def in_reads_of(size: int, text: bytes) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


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
