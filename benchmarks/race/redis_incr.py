"""Redis: an INCRBY for every event, pipelined, fed by a confluent-kafka consumer and json.loads.

Run by the race as `python -m benchmarks.race.redis_incr`. It starts redis-server itself, and ends
it. Settings, and why:

- a Unix socket, which Redis's manual on benchmarks puts ahead of loopback;
- no snapshots and no append-only file: nothing goes to disk, and a restart loses all counts;
- pipelines of 10,000 commands, written as one piece of protocol to a plain socket, with no client
  library between; answers are read when the next batch is parsed, so that both processes
  work at once.

The clock stops when Redis has answered the last command. Every answer must be a number.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import TYPE_CHECKING

from benchmarks.race.contract import Stopwatch, count_name, task_of
from benchmarks.race.reading import SILENCE_S, batches
from tests.kit.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SOCKET = "redis.sock"
START_TIMEOUT_S = 20
KEYS_AT_ONCE = 10_000


class RedisError(Exception):
    """Redis answered something else than was expected; the text is its answer."""


class Redis:
    """One connection. Calls block, and raise RedisError, or TimeoutError when nothing comes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")

    def send(self, commands: str) -> None:
        """Write commands, as `command` has them, without waiting for answers."""
        self._connection.sendall(commands.encode())

    def numbers(self, count: int) -> None:
        """Read so many answers, each of which must be a number."""
        for _ in range(count):
            answer = self._answers.readline()
            if answer[:1] != b":":
                raise RedisError(answer.decode().strip())

    def texts(self) -> list[str]:
        """Read one answer that is a list of texts."""
        return [self._text() for _ in range(self._length(b"*"))]

    def _text(self) -> str:
        text = self._answers.read(self._length(b"$"))
        self._answers.readline()
        return text.decode()

    def _length(self, kind: bytes) -> int:
        answer = self._answers.readline()
        if answer[:1] != kind:
            raise RedisError(answer.decode().strip())
        return int(answer[1:])


def command(*words: str) -> str:
    """A command as Redis reads it soonest; lengths are in bytes, so words are ASCII here."""
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


def increments(values: Sequence[bytes]) -> str:
    """One INCRBY for each event; spelt out, since it is half of this contestant's own work."""
    commands = []
    for value in values:
        event = json.loads(value)
        name, delta = count_name(event["counter"], event["at"]), str(event["delta"])
        commands.append(
            f"*3\r\n$6\r\nINCRBY\r\n${len(name)}\r\n{name}\r\n${len(delta)}\r\n{delta}\r\n"
        )
    return "".join(commands)


def counts_in(redis: Redis) -> dict[str, int]:
    """Every key with its number."""
    redis.send(command("KEYS", "*"))
    names, counts = redis.texts(), dict[str, int]()
    for start in range(0, len(names), KEYS_AT_ONCE):
        some = names[start : start + KEYS_AT_ONCE]
        redis.send(command("MGET", *some))
        counts.update(zip(some, map(int, redis.texts()), strict=True))
    return counts


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[Redis]:
    """An empty Redis, which ends with the block."""
    started = ["redis-server", "--port", "0", "--unixsocket", SOCKET, "--dir", str(folder)]
    started += ["--save", "", "--appendonly", "no"]
    with Process(started, output_path=folder / "redis.txt", cwd=folder) as server:
        server.wait_for_line(r"(?i)ready to accept connections", timeout_s=START_TIMEOUT_S)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SILENCE_S)
            # The path of a socket may have about a hundred bytes: a relative one stays below.
            with contextlib.chdir(folder):
                connection.connect(SOCKET)
            yield Redis(connection)
        server.stop()


def main() -> None:
    task, watch, unanswered = task_of(), Stopwatch(), 0
    with redis_server(task.folder) as redis:
        for values in batches(task):
            watch.saw(len(values))
            commands = increments(values)
            redis.numbers(unanswered)
            redis.send(commands)
            unanswered = len(values)
        redis.numbers(unanswered)
        watch.stop()
        watch.write(task.result, counts_in(redis))


if __name__ == "__main__":
    main()
