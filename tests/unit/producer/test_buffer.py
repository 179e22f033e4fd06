"""Who waits for room, and who is told that there is none: by thread, and never halfway."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from pipeline.producer.buffer import Buffer, BufferFullError
from schemas.frames import FRAME_SCHEMA


def table(rows: int) -> pa.Table:
    columns: dict[str, list[object]] = {name: [None] * rows for name in FRAME_SCHEMA.names}
    columns["counter"], columns["delta"] = ["a:b"] * rows, [1] * rows
    return pa.Table.from_pydict(columns, FRAME_SCHEMA)


def in_a_thread(does: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=does, daemon=True)
    thread.start()
    return thread


def test_a_thread_that_never_waits_leaves_nothing_to_one_that_comes_after_it() -> None:
    """The system gives the number of a thread that ended to the next one."""
    buffer = Buffer(1, raises=False)
    ended: list[int] = []

    def never_wait() -> None:
        buffer.never_wait_here()
        ended.append(threading.get_ident())

    in_a_thread(never_wait).join()
    buffer.add([table(1)])
    outcomes: list[str] = []

    def add() -> None:
        if threading.get_ident() not in ended:
            return
        try:
            buffer.add([table(1)])
            outcomes.append("added")
        except BufferFullError:
            outcomes.append("refused")

    for _ in range(50):
        thread = in_a_thread(add)
        thread.join(0.2)
        if thread.is_alive() or outcomes:
            break
    else:
        pytest.skip("no thread got the number of the one that ended")
    assert thread.is_alive(), f"it should wait, but was {outcomes}"
    buffer.take()
    thread.join(5)
    assert outcomes == ["added"]


def test_where_nobody_waits_many_are_taken_whole_or_not_at_all() -> None:
    buffer = Buffer(3, raises=False)
    refused: list[BufferFullError] = []

    def add() -> None:
        buffer.never_wait_here()
        try:
            buffer.add([table(3), table(3)])
            buffer.add([table(1)])
        except BufferFullError as error:
            refused.append(error)

    in_a_thread(add).join(5)
    assert buffer.open.rows == 6
    assert len(refused) == 1


def test_who_must_not_wait_is_refused_there_and_waits_elsewhere() -> None:
    buffer = Buffer(1, raises=False)
    buffer.add([table(1)])
    with pytest.raises(BufferFullError), buffer.at_once():
        buffer.add([table(1)])
    thread = in_a_thread(lambda: buffer.add([table(1)]))
    thread.join(0.1)
    assert thread.is_alive()
    buffer.take()
    thread.join(5)
    threading.Timer(0.1, buffer.take).start()
    buffer.add([table(1)])
    assert buffer.open.rows == 1
