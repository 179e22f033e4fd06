"""Parts of a plain JSON value: spaces, quotes, words, numbers and moments, by their bytes.

Plain means: no escapes, no white space but spaces, UTF-8, no exponents. What is not plain is told
as such, and is for others to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import uint64

from pipeline.native.kernel import within_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_DIGITS_MAX = 18  # fit into 64 bits
QUOTE, COLON, COMMA, OPEN, CLOSE, STAR = (ord(character) for character in '":,{}*')
_ZERO, _NINE, _MINUS, _POINT, _SPACE = (ord(character) for character in "09-. ")
_NOT_PLAIN, _NOT_ASCII = 1, 2
_CLASSES = np.zeros(256, np.uint8)
"""Of every byte: whether texts with it must be unescaped, or are more than ASCII."""
_CLASSES[:32] = _CLASSES[ord("\\")] = _NOT_PLAIN
_CLASSES[128:] = _NOT_ASCII


def word_of(text: bytes) -> np.uint64:
    """Up to eight bytes as `word` has them."""
    return np.uint64(int.from_bytes(text, "big"))


_TRUE, _NULL, _FALSE = word_of(b"true"), word_of(b"null"), word_of(b"false")


@within_kernels
def after_space(data: Bytes, at: int, end: int) -> int:
    """The next place that is no space. Other white space is not plain."""
    while at < end and data[at] == _SPACE:
        at += 1
    return at


@within_kernels
def _is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether the bytes are whole characters."""
    while at < end:
        first = data[at]
        if first < 0x80:
            at += 1
            continue
        size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        if first < 0xC2 or first > 0xF4 or at + size > end:
            return False
        for place in range(at + 1, at + size):
            if data[place] & 0xC0 != 0x80:
                return False
        second = data[at + 1]
        if (
            (first == 0xE0 and second < 0xA0)  # longer than need be
            or (first == 0xED and second > 0x9F)  # half of a surrogate pair
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)  # beyond Unicode
        ):
            return False
        at += size
    return True


@within_kernels
def find_quotes(data: Bytes, start: int, end: int, quotes: Any) -> int:
    """Where the quotes of a value are, and how many; -1 if one of its bytes is not plain.

    A loop without a branch, since where texts end cannot be foretold.
    """
    found, classes = 0, 0
    for at in range(start, end):
        byte = data[at]
        quotes[found] = at
        found += byte == QUOTE
        classes |= _CLASSES[byte]
    if classes & _NOT_PLAIN:
        return -1
    if classes & _NOT_ASCII and not _is_utf8(data, start, end):
        return -1
    quotes[found] = -1
    return found


@within_kernels
def word(data: Bytes, start: int, end: int) -> np.uint64:
    """Up to eight bytes as one number; 0 for more."""
    if end - start > 8:
        return uint64(0)
    found = uint64(0)
    for at in range(start, end):
        found = found << uint64(8) | uint64(data[at])
    return found


@within_kernels
def _after_digits(data: Bytes, at: int, end: int) -> int:
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@within_kernels
def whole_number(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A plain whole number, and where it ends: -1 if it is none, or too long to be read here."""
    is_negative = data[at] == _MINUS
    start = at + is_negative
    number, at = 0, start
    while at < end and _ZERO <= data[at] <= _NINE:
        number = number * 10 + (data[at] - _ZERO)
        at += 1
    digits = at - start
    if digits < 1 or digits > _DIGITS_MAX or (data[start] == _ZERO and digits + is_negative > 1):
        return 0, -1
    if at < end and (data[at] == _POINT or data[at] | 32 == ord("e")):
        return 0, -1
    return -number if is_negative else number, at


@within_kernels
def after_other(data: Bytes, at: int, end: int) -> int:
    """Where what is neither text nor object nor array ends, of a field that nobody asks for.

    -1 if it is not plain.
    """
    byte = data[at]
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        _, number_end = whole_number(data, at, end)
        if number_end >= 0:
            return number_end
        start = at + 1 if byte == _MINUS else at
        point = _after_digits(data, start, end)
        if point == start or (data[start] == _ZERO and point > start + 1):
            return -1
        if point >= end or data[point] != _POINT:
            return -1
        number_end = _after_digits(data, point + 1, end)
        has_exponent = number_end < end and (data[number_end] | 32) == ord("e")
        if number_end == point + 1 or has_exponent or number_end - start > _DIGITS_MAX:
            return -1
        return number_end
    four = word(data, at, min(at + 4, end))
    if four in (_TRUE, _NULL):
        return at + 4
    if word(data, at, min(at + 5, end)) == _FALSE:
        return at + 5
    return -1


@within_kernels
def _two_digits(data: Bytes, at: int) -> Any:
    """-1 if they are none."""
    tens, ones = data[at], data[at + 1]
    if not (_ZERO <= tens <= _NINE and _ZERO <= ones <= _NINE):
        return -1
    return (tens - _ZERO) * 10 + (ones - _ZERO)


@within_kernels
def _days_since_1970(year: int, month: int, day: int) -> int:
    """By the Gregorian calendar, counted in years that begin in March."""
    years = year - 1 if month <= 2 else year
    months = month + 9 if month <= 2 else month - 3
    day_of_year = (153 * months + 2) // 5 + day - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + day_of_year - 719468


@within_kernels
def moment_ms(data: Bytes, start: int, end: int) -> int:
    """Milliseconds of 2026-11-17T12:00:00Z, or with up to three digits after a point; else -1."""
    size = end - start
    if size < 20 or size > 24 or size == 21 or data[end - 1] != ord("Z"):
        return -1
    century, years = _two_digits(data, start), _two_digits(data, start + 2)
    month, day = _two_digits(data, start + 5), _two_digits(data, start + 8)
    hour, minute = _two_digits(data, start + 11), _two_digits(data, start + 14)
    second = _two_digits(data, start + 17)
    if min(century, years, month, day, hour, minute, second) < 0:
        return -1
    if (
        data[start + 4] != _MINUS
        or data[start + 7] != _MINUS
        or data[start + 10] != ord("T")
        or data[start + 13] != COLON
        or data[start + 16] != COLON
    ):
        return -1
    year = century * 100 + years
    if year < 1970 or month < 1 or month > 12 or hour > 23 or minute > 59 or second > 59:
        return -1
    next_year, next_month = (year + 1, 1) if month == 12 else (year, month + 1)
    first = _days_since_1970(year, month, 1)
    if day < 1 or day > _days_since_1970(next_year, next_month, 1) - first:
        return -1
    moment: int = (((first + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    thousandths = 0
    if size > 20:
        if data[start + 19] != _POINT:
            return -1
        for place in range(3):
            thousandths *= 10
            if start + 20 + place < end - 1:
                digit = data[start + 20 + place]
                if not _ZERO <= digit <= _NINE:
                    return -1
                thousandths += digit - _ZERO
    return moment * 1000 + thousandths
