"""Where a run begins: at the start, where an interrupted one ended, or at a byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from pipeline.errors import BadInputError, OperatorError
from pipeline.produce.progress import Progress, mark
from pipeline.produce.reading import lines_before

if TYPE_CHECKING:
    from pipeline.produce.progress import ProgressFile


def begin_at(file: BinaryIO, from_byte: int, *, once: bool) -> Progress:
    """Of a new run; the file stands at its first line. Raises BadInputError if none begins there.

    Reads the file up to there, so that lines have their right numbers.
    """
    marked = mark(file)
    lines = lines_before(file, from_byte)
    return Progress(marked.size, marked.fingerprint, once, offset=from_byte, lines=lines)


def begin_anew(file: BinaryIO, kept: ProgressFile, *, once: bool) -> Progress:
    """Of a new run over the whole file. Raises OperatorError if another one did not end."""
    if kept.exists:
        raise OperatorError(
            f"{kept.path} was left by a run that did not end: go on with --resume, or begin anew "
            "with --from-byte 0"
        )
    return begin_at(file, 0, once=once)


def resume(file: BinaryIO, kept: ProgressFile, *, once: bool) -> Progress:
    """Of the run that did not end; the file stands where it goes on.

    Raises OperatorError if there is none, BadInputError if it was over another file, or if its ids
    come too late.
    """
    progress = kept.load(file)
    if once and not progress.once:
        raise BadInputError(
            f"the run that {kept.path} is of began without --once: lines may be in the log without "
            "an id; go on without --once"
        )
    file.seek(progress.offset)
    return progress
