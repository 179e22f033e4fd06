"""The gate of writing statements: nobody writes while it is shut, and it opens again."""

import threading

import pytest

from pipeline.embedded.clickhouse.write_gate import WriteGate
from pipeline.errors import TryAgainError

SOON_S = 0.1
PATIENCE_S = 10.0


def test_who_comes_while_it_is_shut_waits_until_it_is_open() -> None:
    gate, went_through = WriteGate(), threading.Event()

    def write() -> None:
        with gate.writing():
            went_through.set()

    writer = threading.Thread(target=write)
    with gate.shut(PATIENCE_S):
        writer.start()
        assert not went_through.wait(SOON_S)
    assert went_through.wait(PATIENCE_S)
    writer.join()


def test_it_is_shut_once_those_who_write_have_ended() -> None:
    gate, writing, end = WriteGate(), threading.Event(), threading.Event()

    def write() -> None:
        with gate.writing():
            writing.set()
            end.wait(PATIENCE_S)

    writer = threading.Thread(target=write)
    writer.start()
    assert writing.wait(PATIENCE_S)
    threading.Timer(SOON_S, end.set).start()
    with gate.shut(PATIENCE_S):
        assert end.is_set()
    writer.join()


def test_who_writes_for_too_long_is_not_waited_for_and_others_go_on() -> None:
    gate = WriteGate()
    with gate.writing():
        with pytest.raises(TryAgainError, match=r"more than 0\.1 s"), gate.shut(SOON_S):
            pass
        with gate.writing():
            pass


def test_two_cannot_have_it_shut() -> None:
    gate = WriteGate()
    with (
        gate.shut(PATIENCE_S),
        pytest.raises(TryAgainError, match="being copied already"),
        gate.shut(PATIENCE_S),
    ):
        pass
    with gate.writing():
        pass
