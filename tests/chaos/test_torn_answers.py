"""Who sends over the web API takes half an answer for none, and asks again."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.buyers import Buyer
from tests.chaos.senders.web import OverWeb
from tests.kit.proxy import HOST
from tests.kit.truth.ledger import Answer, Ledger

LENGTH, UNTIL_THE_END = "Content-Length: {}\r\n", ""
COMMAND = {"counter": "stock:seat-0", "what": "decrement", "amount": 1, "id": "one"}


@contextmanager
def answering(*bodies: tuple[bytes, int], head: str) -> Iterator[str]:
    """A server that answers each request with so many bytes of a body and closes the connection."""

    def serve(server: socket.socket) -> None:
        for body, size in bodies:
            with server.accept()[0] as peer:
                request = b""
                while not request.endswith(b"}"):
                    request += peer.recv(1 << 16)
                peer.sendall(f"HTTP/1.1 200 OK\r\n{head.format(len(body))}\r\n".encode())
                peer.sendall(body[:size])

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield f"http://{HOST}:{server.getsockname()[1]}"
        thread.join(10)


@pytest.mark.parametrize("head", [LENGTH, UNTIL_THE_END])
def test_half_an_answer_acknowledges_nothing(head: str) -> None:
    body = json.dumps({"accepted": 1, "offset": 17}).encode()
    with answering((body, len(body) // 2), (body, len(body)), head=head) as url:
        way = OverWeb([url])
        for known in ([], [5]):
            way.send({5: {"counter": "likes:key-1", "delta": 1, "id": "five"}})
            assert way.acknowledged(0) == known


@pytest.mark.parametrize("head", [LENGTH, UNTIL_THE_END])
def test_half_an_answer_to_a_command_is_none_and_it_is_asked_again(
    head: str, tmp_path: Path
) -> None:
    body = json.dumps({"accepted": True, "remaining": 4}).encode()
    ledger = Ledger(tmp_path / "one.ledger")
    with answering((body, len(body) // 2), (body, len(body)), head=head) as url:
        buyer = Buyer(ledger, [url], "one", 1.0, threading.Event())
        number = ledger.ask(COMMAND)
        buyer.ask(number)
        buyer.close()
    assert ledger.answers[number] == [Answer(True, 4)]
    ledger.close()
