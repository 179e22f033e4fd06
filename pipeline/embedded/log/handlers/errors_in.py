"""Whether an answer tells of an error. Pure."""

from typing import Any

from kio.schema.errors import ErrorCode


def first_error(answer: dict[str, Any]) -> ErrorCode | None:
    """The first error that is told of, for all or for one of several; None if all is well."""
    for value in answer.values():
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                return value
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            for part in value:
                if (code := first_error(part)) is not None:
                    return code
    return None
