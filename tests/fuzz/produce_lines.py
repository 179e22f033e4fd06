"""A file of any bytes that `tally produce` sends, read in pieces of any size and gone on with.

An input is a line, then the file. Each byte of the line is the size of a read, in turn, and names a
place to go on from; an empty line reads all at once. Two bytes 0xfd are many letters and two bytes
0xfe many spaces, a few times, since no input is as long as the longest line.
"""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, NamedTuple

import pipeline.native.plain  # noqa: F401 - so that its compilation is not taken for a hang
from pipeline.errors import BadInputError
from pipeline.produce.beginning import begin_at
from pipeline.produce.checking import RefusedLine
from pipeline.produce.reading import LINE_BYTES_MAX, read_chunks
from pipeline.produce.sending import Producing, produce
from pipeline.producer.receipts import Receipt
from schemas.events import FIELDS
from tests.kit.clocks import ManualClock
from tests.kit.modelled import LOG_MS, as_the_model_reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.produce.checking import Checked

PROMISE = "each line is sent, blank, or refused with its number; the same again from any line on"

_MANY, _TIMES_MAX = 400_000, 4
_LETTERS, _SPACES = b"\xfd\xfd", b"\xfe\xfe"
_PLACES_MAX = 2
_READS_MAX = 32


def seeds() -> list[bytes]:
    event, padded = b'{"counter":"a:b"}', b'{"counter":"a:b"' + _SPACES * 3
    return [
        b"\n" + event + b"\n" + event,
        b"\x01\x05\x0a\n" + event + b"\n\r\n  \noops\n{}\n \t" + event + b"\r\n\n",
        b"\x11\n" + b'{"counter":"a:b","id":"own"}\n{"id":null,"counter":"a:c"}\n' + event,
        b"\x28\n" + b'{"counter":"a:b","id":"x","id":null,"delta":-3}\n{"counter":"a:b","delta":0}',
        b"\x02\n\xef\xbb\xbf" + event + b"\n\xff\n\0\n" + event + b"\x0b\x0c\n\n\n",
        b"\xff\n" + b'{"counter":"a:b","x":"' + _LETTERS * 2 + b'"}\n' + event,
        b"\n" + b'{"counter":"a:b","x":"' + _LETTERS * 3 + b'"}\n' + event + b"\nbad",
        b"\x07\n" + event + b"\n" + _LETTERS * 4,
        b"\n" + _SPACES * 3 + event + b"\n" + event,
        b"\n" + event + _SPACES * 3 + b"and more\n" + event,
        b"\n" + padded + b"}\n" + padded,
    ]  # fmt: skip


def check(data: bytes) -> None:
    line, _, file = data.partition(b"\n")
    file = file.replace(_LETTERS, b"x" * _MANY, _TIMES_MAX)
    file = file.replace(_SPACES, b" " * _MANY, _TIMES_MAX)
    lines = _lines(file)
    for once in (False, True):
        fingerprint = _is_told(file, line, lines, 0, once=once)
        for place in line[:_PLACES_MAX]:
            first = place % max(1, len(lines))
            assert fingerprint == _is_told(file, line, lines, first, once=once)
    for place in line[:_PLACES_MAX]:
        _begins_where_a_line_does(file, place)


class _Line(NamedTuple):
    """What is to become of one: it is sent and has a row, or there is a reason, or it is blank."""

    begin: int
    end: int
    sent: bytes
    row: dict[str, object] | None
    reason: str | None


def _lines(file: bytes) -> list[_Line]:
    """As the model reads each of them."""
    found: list[_Line] = []
    begin = 0
    while begin < len(file):
        feed = file.find(b"\n", begin)
        end = len(file) if feed < 0 else feed + 1
        line = file[begin:end].removesuffix(b"\n")
        sent = line.strip()
        if len(line) > LINE_BYTES_MAX:
            found.append(_Line(begin, end, sent, None, f"longer than {LINE_BYTES_MAX} bytes"))
        elif not sent:
            found.append(_Line(begin, end, sent, None, None))
        else:
            rows, refused = as_the_model_reads([sent])
            row = {name: rows[0][name] for name in FIELDS} if rows else None
            found.append(_Line(begin, end, sent, row, refused[0][1] if refused else None))
        begin = end
    return found


def _is_told(file: bytes, line: bytes, lines: list[_Line], first: int, *, once: bool) -> str:
    """Line `first` and all after it; the fingerprint by which the run knows the file."""
    source = io.BytesIO(file)
    progress = begin_at(source, lines[first].begin if lines else 0, once=once)
    sender, refused = _Sender(), list[RefusedLine]()
    producing = Producing(progress, sender, ManualClock(LOG_MS / 1000), refused.append)
    chunks = read_chunks(_read(source, line), progress.offset, progress.lines + 1)
    assert produce(chunks, producing, _Nobody(), lambda: None)
    rest = list(enumerate(lines[first:], first + 1))
    good = [one for _, one in rest if one.row is not None]
    assert refused == [(number, one.reason) for number, one in rest if one.reason is not None]
    assert (progress.sent, progress.refused) == (len(good), len(refused))
    assert (progress.offset, progress.lines, producing.lost) == (len(file), len(lines), None)
    ids = [_id(one, progress.fingerprint if once else None) for one in good]
    rows = [{**(one.row or {}), "id": given} for one, given in zip(good, ids, strict=True)]
    assert sender.rows == rows
    if once:
        # With its id a line is still the same event, as whoever reads the log sees it.
        read, _ = as_the_model_reads(sender.lines)
        assert [{name: row[name] for name in FIELDS} for row in read] == rows
    else:
        assert sender.lines == [one.sent for one in good]
    return progress.fingerprint


def _id(line: _Line, fingerprint: str | None) -> object:
    own = (line.row or {})["id"]
    return f"{fingerprint}:{line.begin}" if own is None and fingerprint is not None else own


def _begins_where_a_line_does(file: bytes, place: int) -> None:
    """Or says why not."""
    is_begin = place <= len(file) and (place == 0 or file[place - 1 : place] == b"\n")
    try:
        progress = begin_at(io.BytesIO(file), place, once=False)
    except BadInputError as error:
        assert not is_begin, error
    else:
        assert is_begin
        assert progress.lines == file[:place].count(b"\n")


def _read(source: io.BytesIO, line: bytes) -> Callable[[int], bytes]:
    """In pieces of the sizes that the line has, in turn."""
    least = 1 + len(source.getbuffer()) // _READS_MAX
    sizes = itertools.cycle([max(size, least) for size in line])
    return lambda size: source.read(min(size, next(sizes, size)))


class _Sender:
    """A Sender to a log that has everything at once."""

    unknown = 0

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.rows: list[dict[str, object]] = []

    def send(self, checked: Checked) -> Receipt:
        assert len(checked.lines) == checked.columns.num_rows
        self.lines += checked.lines
        self.rows += checked.columns.to_pylist()
        return Receipt.of(())

    def close(self) -> None:
        raise AssertionError("nobody was in a hurry")


class _Nobody:
    """Wishes of nobody."""

    asked = False
    hurried = False
