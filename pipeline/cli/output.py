"""What commands print: for people on stdout, one JSON document on stdout, errors on stderr.

Colours and boxes appear on terminals only, and never when NO_COLOR is set; rich sees to both.
"""

import json
import os
import select
import sys
import traceback

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process here; `run` decides what a closed pipe means."""
        raise  # noqa: PLE0704  rich calls this inside its own except clause


def console() -> Console:
    """For people, on stdout. Text is printed as it is: brackets in a counter are not markup.

    Made anew each time, so that it follows a replaced sys.stdout. Printing raises BrokenPipeError
    when the reader has gone.
    """
    return _Console(file=sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_json(document: object) -> None:
    """Prints ONE JSON document in one line on stdout; a `--json` command prints nothing else there.

    ASCII with escapes, so that no terminal's or locale's encoding can refuse it. Raises TypeError
    or ValueError for what JSON cannot say (NaN among it), before anything is written.
    """
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def print_error(text: str) -> None:
    """One line on stderr, whatever line breaks the text has."""
    sys.stderr.write(f"tally: {' '.join(text.split())}\n")


def print_traceback(error: BaseException) -> None:
    sys.stderr.write("".join(traceback.format_exception(error)))


def stdout_is_gone() -> bool:
    """Flushes stdout; True when what was printed did not get out, as when its reader has left.

    A reader that left is ordinary (`tally top | head`) and passed over in silence; a full disk is
    told. Then stdout is pointed at nothing, so that the interpreter's flush at exit stays quiet.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print_error(f"cannot write the output: {error.strerror}")
    else:
        if not _reader_has_left():
            return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return True


def _reader_has_left() -> bool:
    """Whether stdout is a pipe that nobody reads: a write that failed may have left no trace."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # It was replaced by something that is no file.
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
