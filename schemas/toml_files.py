"""TOML files that people write: read, with mistakes told by file, line and field."""

import tomllib
from pathlib import Path
from typing import Any

from pipeline.errors import OperatorError
from schemas.toml_places import line_of, syntax_reason


def read_text(path: Path, advice: str = "") -> str:
    """Reads the disk. Raises OperatorError, which ends with the advice, if there is some."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OperatorError(f"{path}: cannot be read: {reason}{advice}") from None


def read_document(text: str, file: str) -> dict[str, Any]:
    """The document in a text. Raises OperatorError naming `file` and the line."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise OperatorError(syntax_reason(file, text, "nested too deeply")) from None
    except ValueError as error:
        # TOMLDecodeError is one; a number of more digits than Python reads is another.
        raise OperatorError(syntax_reason(file, text, str(error))) from None


def mistake(text: str, file: str, place: tuple[str, ...], reason: str) -> OperatorError:
    """What is wrong at a place of the document, in one line. Pure."""
    field = ".".join(map(_shown, place))
    return OperatorError(f"{file}:{line_of(text, place)}: {field}: {reason}")


def _shown(name: str) -> str:
    """A name as it is, or as Python would write it where a terminal would do something else."""
    return name if name.isprintable() else repr(name)[1:-1]
