"""The token file as `tally token` changes it: what stands there stays, comments and all."""

import contextlib
import fcntl
import json
import os
import tempfile
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import OperatorError
from schemas.tokens import TokenTable, parse_tokens
from schemas.toml_places import is_header, line_of


def with_token(text: str, name: str, token: TokenTable) -> str:
    """The text with one more token at its end. Pure; raises OperatorError for a name in use."""
    if name in parse_tokens(text).tokens:
        raise OperatorError(f"there is a token {name}: revoke it first, or choose another name")
    lines = [f"[tokens.{name}]", f'hash = "{token.hash}"']
    for right in ("read", "write", "admin"):
        families = getattr(token, right)
        if families:
            lines.append(f"{right} = [{', '.join(map(_quoted, families))}]")
    if token.rate is not None:
        lines.append(f"rate = {token.rate!r}")
    if token.expires is not None:
        moment = datetime.fromtimestamp(token.expires // 1000, UTC)
        lines.append(f'expires = "{moment:%Y-%m-%dT%H:%M:%SZ}"')
    before = text if not text or text.endswith("\n") else text + "\n"
    return before + ("\n" if before else "") + "\n".join(lines) + "\n"


def without_token(text: str, name: str) -> str:
    """The text without the token's table. Pure.

    Raises OperatorError when there is none of that name, or when it is written in a form that
    cannot be cut out by lines; then the text is for a person to edit.
    """
    before = parse_tokens(text).tokens
    if name not in before:
        raise OperatorError(f"there is no token {name}; `tally token list` shows them")
    lines = text.splitlines(keepends=True)
    start = line_of(text, ("tokens", name)) - 1
    end = start + 1
    while end < len(lines) and not is_header(lines[end]):
        end += 1
    # What is said right above the next table belongs to that one.
    while end < len(lines) and end > start + 1 and lines[end - 1].lstrip().startswith("#"):
        end -= 1
    after = "".join(lines[:start] + lines[end:])
    rest = {other: token for other, token in before.items() if other != name}
    with contextlib.suppress(tomllib.TOMLDecodeError, OperatorError):
        if parse_tokens(after).tokens == rest:
            return after
    raise OperatorError(f"{name} is not a table [tokens.{name}] of its own: remove it by hand")


def edit_tokens(path: Path, change: Callable[[str], str]) -> None:
    """Changes the file's text, which is empty where there is no file; on the disk when it returns.

    The new file is there whole or not at all, for its owner alone to read. Two who edit at the same
    moment wait for each other. Raises OperatorError, and what `change` raises.
    """
    path = path.resolve()  # A link stays one.
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _write(path, change(_text(path)))
    finally:
        os.close(folder)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperatorError(f"{path}: cannot be read: {reason}") from None


def _write(path: Path, text: str) -> None:
    draft = ""
    try:
        descriptor, draft = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except OSError as error:
        if draft:
            Path(draft).unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> OperatorError:
    return OperatorError(f"{path}: cannot be written: {error.strerror}")


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's too, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
