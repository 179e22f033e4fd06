"""A part of Tally as a process whose clock is wrong, and behind a proxy that clients are told of.

    python -m tests.chaos.part SKEW_FILE ADVERTISED_PORT MODULE ARGUMENTS...

The module runs as it is, but for the clock that it is passed: the machine's, plus as many seconds
as the file says at the time. ADVERTISED_PORT is where the embedded log tells clients to come; 0 for
all others.
"""

import mmap
import runpy
import struct
import sys
from pathlib import Path

SECONDS = struct.Struct("<d")


def write_skew(path: Path, seconds: float) -> None:
    """Set the clocks of all parts that were started with this file."""
    mode = "r+b" if path.exists() else "w+b"
    with path.open(mode) as file:
        file.write(SECONDS.pack(seconds))


def _skew(path: str) -> None:
    import pipeline.clock

    with Path(path).open("rb") as file:
        skew = mmap.mmap(file.fileno(), SECONDS.size, access=mmap.ACCESS_READ)

    class SkewedClock(pipeline.clock.SystemClock):
        def now_ms(self) -> int:
            (seconds,) = SECONDS.unpack(skew)
            return super().now_ms() + round(float(seconds) * 1000)

    pipeline.clock.SystemClock = SkewedClock  # type: ignore[misc]


def _advertise(port: int) -> None:
    from pipeline.embedded.log import running
    from pipeline.embedded.log.server import Server

    class Advertised(Server):
        async def start(self, host: str, port_listened: int) -> int:
            bound = await super().start(host, port_listened)
            self._broker.port = port
            return bound

    vars(running)["Server"] = Advertised


def main() -> None:
    # kio imports Hypothesis where it is installed, which users have not: half of the time to start.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    skew_path, advertised, module, *arguments = sys.argv[1:]
    _skew(skew_path)
    if int(advertised):
        _advertise(int(advertised))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
