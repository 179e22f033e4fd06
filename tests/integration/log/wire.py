"""The Kafka protocol by hand, for what no client lets a test do: lie, repeat, and go silent.

Old, fixed-width request versions are used, because they can be read off this page.
"""

import socket
import struct
import time
from dataclasses import dataclass
from typing import Self

from tests.kit.processes import wait_until

TIMEOUT_S = 10
SESSION_MS = 20_000
"""These members send no heartbeats by themselves, and are not to be forgotten by mistake."""

PRODUCE, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 0, 8, 10, 11, 12
SYNC_GROUP, API_VERSIONS, INIT_PRODUCER_ID = 14, 18, 22

# A coordinator that is loading, not available, or elsewhere.
NOT_READY = {14, 15, 16}


def text(value: str | None) -> bytes:
    """A nullable string."""
    if value is None:
        return struct.pack(">h", -1)
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    """A byte string with a four-byte length."""
    return struct.pack(">i", len(value)) + value


def one(element: bytes) -> bytes:
    """An array of one element."""
    return struct.pack(">i", 1) + element


class Answer:
    """Reads a response from the front."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, layout: str) -> int:
        """One number in struct notation."""
        number: int = struct.unpack_from(">" + layout, self._body, self._at)[0]
        self._at += struct.calcsize(">" + layout)
        return number

    def blob(self, length_layout: str = "i") -> bytes:
        length = self.take(length_layout)
        if length < 0:
            return b""
        found = self._body[self._at : self._at + length]
        self._at += length
        return found

    def text(self) -> str:
        return self.blob("h").decode()


@dataclass(frozen=True)
class Membership:
    """What JoinGroup answered to one member."""

    error: int
    generation: int
    member: str


class Wire:
    """One connection. Every wait is bounded by a time-out, which raises TimeoutError."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: int, version: int, body: bytes) -> None:
        """Send one request and do not wait for its answer."""
        self._correlation += 1
        message = struct.pack(">hhi", api, version, self._correlation) + text("wire") + body
        self.socket.sendall(blob(message))

    def receive(self) -> Answer:
        """The answer to the oldest open request; raises ConnectionError when closed."""
        length = struct.unpack(">i", self._exactly(4))[0]
        answer = Answer(self._exactly(length))
        answer.take("i")
        return answer

    def ask(self, api: int, version: int, body: bytes) -> Answer:
        self.send(api, version, body)
        return self.receive()

    def _exactly(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            piece = self.socket.recv(length - len(found))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            found += piece
        return found

    def find_coordinator(self, group: str) -> int:
        """Error code of FindCoordinator v0; 0 once the group's coordinator is ready."""
        return self.ask(FIND_COORDINATOR, 0, text(group)).take("h")

    def init_producer_id(self) -> tuple[int, int]:
        """A new producer id and its epoch."""
        answer = self.ask(INIT_PRODUCER_ID, 0, text(None) + struct.pack(">i", 10_000))
        answer.take("i")
        assert answer.take("h") == 0
        return answer.take("q"), answer.take("h")

    def produce(self, topic: str, batch: bytes, partition: int = 0) -> tuple[int, int]:
        """Produce one batch with acks=all: its error code and base offset."""
        place = struct.pack(">i", partition) + blob(batch)
        body = text(None) + struct.pack(">hi", -1, 5000) + one(text(topic) + one(place))
        answer = self.ask(PRODUCE, 3, body)
        answer.take("i")
        answer.text()
        answer.take("i")
        answer.take("i")
        return answer.take("h"), answer.take("q")

    def send_join(
        self, group: str, member: str = "", *, timeout_ms: int = SESSION_MS, protocol: str = "range"
    ) -> None:
        """Send JoinGroup v2, whose answer may wait for other members."""
        times = struct.pack(">ii", timeout_ms, timeout_ms)
        offered = one(text(protocol) + blob(b""))
        who = text(group) + times + text(member) + text("consumer")
        self.send(JOIN_GROUP, 2, who + offered)

    def receive_join(self) -> Membership:
        answer = self.receive()
        answer.take("i")
        error, generation = answer.take("h"), answer.take("i")
        answer.text()
        answer.text()
        return Membership(error, generation, answer.text())

    def join(self, group: str, member: str = "", *, timeout_ms: int = SESSION_MS) -> Membership:
        """Join; blocks while other members have yet to join again."""
        self.send_join(group, member, timeout_ms=timeout_ms)
        return self.receive_join()

    def join_alone(self, group: str, *, timeout_ms: int = SESSION_MS) -> Membership:
        """Join and sync as the only member of a new group, once its coordinator is ready."""
        wait_until(lambda: self.find_coordinator(group) not in NOT_READY, "a coordinator")
        membership = self.join(group, timeout_ms=timeout_ms)
        deadline_s = time.monotonic() + TIMEOUT_S
        while membership.error in NOT_READY and time.monotonic() < deadline_s:
            time.sleep(0.05)
            membership = self.join(group, timeout_ms=timeout_ms)
        assert (membership.error, self.sync(group, membership)) == (0, 0)
        return membership

    def sync(self, group: str, membership: Membership) -> int:
        """Sync as the leader of a group of one; its error code."""
        body = text(group) + struct.pack(">i", membership.generation) + text(membership.member)
        return self.ask(SYNC_GROUP, 0, body + one(text(membership.member) + blob(b""))).take("h")

    def heartbeat(self, group: str, generation: int, member: str) -> int:
        """The error code of one heartbeat."""
        body = text(group) + struct.pack(">i", generation) + text(member)
        return self.ask(HEARTBEAT, 0, body).take("h")

    def commit(self, group: str, generation: int, member: str, topic: str, offset: int) -> int:
        """Commit one offset of partition 0; its error code."""
        position = struct.pack(">iq", 0, offset) + text(None)
        who = text(group) + struct.pack(">i", generation) + text(member) + struct.pack(">q", -1)
        answer = self.ask(OFFSET_COMMIT, 2, who + one(text(topic) + one(position)))
        answer.take("i")
        answer.text()
        answer.take("i")
        answer.take("i")
        return answer.take("h")
