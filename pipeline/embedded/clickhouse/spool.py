"""A request's body, kept whole before the engine sees it: in memory while small, then in a file.

A slow or dying client so holds no thread of the engine, and a torn upload inserts nothing.
"""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from pipeline.embedded.clickhouse import errors

MEMORY_BYTES_MAX = 8 << 20
BODY_BYTES_MAX = 16 << 30


class Spool:
    """Written by one task, then read by one thread; closed by `with`, which removes any file."""

    def __init__(self, folder: Path, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX, dir=str(folder))  # noqa: SIM115 - closed by __exit__
        self._bytes_max = bytes_max
        self.size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Blocks on the disk once memory is outgrown; raises ClickHouseError above the limit."""
        self.size_bytes += len(chunk)
        if self.size_bytes > self._bytes_max:
            raise errors.refusal(
                errors.QUERY_IS_TOO_LARGE, f"Request body is larger than {self._bytes_max} bytes"
            )
        self._file.write(chunk)

    def reader(self) -> BinaryIO:
        """The body from its start; the spool owns and closes it."""
        self._file.seek(0)
        return cast("BinaryIO", self._file)

    @property
    def in_memory(self) -> bool:
        """Whether the next small write will not touch the disk."""
        return self.size_bytes <= MEMORY_BYTES_MAX // 2

    def close(self) -> None:
        """Removes what was kept; may be called again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
