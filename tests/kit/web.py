"""A web process for tests, on a port of its own, and a client of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx

from tests.kit.processes import Process, free_port
from tests.kit.tally import START_TIMEOUT_S, TALLY

ANSWER_TIMEOUT_S = 40.0


class Web:
    """One `tally serve`, which may be killed and started again. It is killed on the way out."""

    def __init__(
        self, env: Mapping[str, str], output_path: Path, program: Sequence[str] = TALLY
    ) -> None:
        """Nothing is started yet; never blocks."""
        self._env = {**env, "TALLY_WEB": f"127.0.0.1:{free_port()}"}
        self._output_path = output_path
        self._program = program
        self._process: Process | None = None
        self.url = f"http://{self._env['TALLY_WEB']}"
        self.client = httpx.Client(base_url=self.url, timeout=ANSWER_TIMEOUT_S)

    @property
    def process(self) -> Process:
        if self._process is None:
            raise RuntimeError("this web was never started")
        return self._process

    def start(self) -> None:
        """Block until it listens. Raises ProcessFailedError if it does not."""
        self._process = Process(
            [*self._program, "serve"], output_path=self._output_path, env={**self._env}
        )
        self._process.wait_for_line(r"^web ready: ", timeout_s=START_TIMEOUT_S)

    def kill(self) -> None:
        """End it with SIGKILL, if it was started."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.kill()
