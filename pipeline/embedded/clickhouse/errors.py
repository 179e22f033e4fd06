"""ClickHouse's errors as clients see them: a code, a name, a text, an HTTP status."""

import errno
import re

ACCESS_DENIED = 497
AUTHENTICATION_FAILED = 516
CANNOT_DECOMPRESS = 271
CANNOT_READ_ALL_DATA = 33
BAD_ARGUMENTS = 36
CHECKSUM_DOESNT_MATCH = 40
INTO_OUTFILE_NOT_ALLOWED = 358
INVALID_SESSION_TIMEOUT = 374
NOT_ENOUGH_SPACE = 243
NOT_IMPLEMENTED = 48
QUERY_IS_TOO_LARGE = 229
QUOTA_EXCEEDED = 201
QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING = 216
READONLY = 164
SESSION_IS_LOCKED = 373
SESSION_NOT_FOUND = 372
SOCKET_TIMEOUT = 209
SYNTAX_ERROR = 62
TOO_MANY_SIMULTANEOUS_QUERIES = 202
UNKNOWN_COMPRESSION_METHOD = 89
UNKNOWN_EXCEPTION = 1002
UNKNOWN_FORMAT = 73
UNKNOWN_TYPE_OF_QUERY = 78

NAMES = {
    value: name
    for name, value in globals().items()
    if isinstance(value, int) and not name.startswith("_")
}

DISK_IS_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""What the system says then."""

NO_FILES_LEFT = frozenset((errno.EMFILE, errno.ENFILE))
"""What it says when there is no file left to open."""

# ClickHouse answers 500 to every code that is not listed here.
_STATUS_OF_CODES = {
    400: {6, 8, 15, *range(25, 28), 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321}
    | {376, 427, 441, 675, 676},
    401: {194},
    403: {192, 193, 497, 512, 516},
    404: {46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511},
    408: {159},
    411: {381},
    413: {229},
    415: {779},
    # Of the door alone: clients know by it to try again, as Retry-After says.
    429: {201},
    501: {48},
    503: {76, 209, 439},
}
_STATUS = {code: status for status, codes in _STATUS_OF_CODES.items() for code in codes}

_CODE = re.compile(r"Code: (\d+)\. ")
_VERSION = re.compile(r"\s*\(version [^()]*(?:\([^()]*\))?\)\s*$")


class ClickHouseError(Exception):
    """A query failed; `text` is what ClickHouse would answer, without its version.

    Not a TallyError: it crosses the wire to whoever asked, and never reaches the pipeline.
    """

    def __init__(self, code: int, text: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retry_after_s = retry_after_s

    @property
    def status(self) -> int:
        """The HTTP status that ClickHouse answers with this code."""
        return _STATUS.get(self.code, 500)

    def body(self, version: str) -> str:
        """The answer's body, ending in a line break as ClickHouse's does."""
        return f"{self.text} (version {version})\n"


def refusal(code: int, sentence: str) -> ClickHouseError:
    """An error that the door itself raises, in the words and the shape of ClickHouse's own."""
    return ClickHouseError(code, f"Code: {code}. DB::Exception: {sentence}. ({NAMES[code]})")


def refusal_of(error: OSError) -> ClickHouseError | None:
    """What the door tells of an error of the system, as the engine would; None for a bug."""
    if error.errno in DISK_IS_FULL:  # The door's own files are on the engine's disk.
        return refusal(NOT_ENOUGH_SPACE, "Not enough space: the disk is full")
    if error.errno in NO_FILES_LEFT:
        return refusal(TOO_MANY_SIMULTANEOUS_QUERIES, "Too many simultaneous queries: no file left")
    return None


def nul_refusal(position: int) -> ClickHouseError:
    """For a NUL byte outside literals, at which the engine would silently take the query to end."""
    return refusal(SYNTAX_ERROR, f"Syntax error: failed at position {position + 1}: NUL byte")


def from_engine(message: str) -> ClickHouseError:
    """The engine's message as an error; a message without a code becomes UNKNOWN_EXCEPTION."""
    found = _CODE.search(message)
    if found is None:
        return refusal(UNKNOWN_EXCEPTION, message.strip().rstrip("."))
    text = _VERSION.sub("", message[found.start() :].strip())
    return ClickHouseError(int(found.group(1)), text)
