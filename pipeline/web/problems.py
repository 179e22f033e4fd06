"""What went wrong, as an HTTP answer: one line that says what to do, and nothing secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from pipeline.access.errors import (
    BadTokenError,
    NotAllowedError,
    NoTokenError,
    TooFastError,
)
from pipeline.errors import (
    BadInputError,
    NothingThereError,
    OperatorError,
    TallyError,
    TryAgainError,
    UncountedFamilyError,
)
from pipeline.metrics.definitions import web as metric
from pipeline.producer.receipts import UnknownDeliveryError
from pipeline.strict.answers import NotDecidedYetError
from pipeline.web.counting import NotCountedYetError
from pipeline.web.limits import TooLargeError, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

STATUS: dict[type[TallyError], int] = {
    NoTokenError: 401,
    BadTokenError: 401,
    NotAllowedError: 403,
    TooFastError: 429,
    TooLargeError: 413,
    TooSlowError: 408,
    NotCountedYetError: 412,
    UnknownDeliveryError: 504,
    NotDecidedYetError: 504,
    BadInputError: 422,
    NothingThereError: 404,
    TryAgainError: 503,
    OperatorError: 503,
}
"""By the error's class, the most special one first."""

RETRY_AFTER_S = 1

TEXT_CHARS_MAX = 1_000
"""Of an answer's line: what a server behind said may be long."""

REFUSED: dict[type[TallyError], metric.RefusalReason] = {
    NoTokenError: "no_token",
    BadTokenError: "no_token",
    NotAllowedError: "not_allowed",
    TooFastError: "too_fast",
    TooLargeError: "too_large",
    TooSlowError: "too_slow",
}
"""What is turned away before it is looked at."""

BUG = "this is a bug in Tally: its log has what happened"


def problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong, on one line."""
    line = " ".join(text.split())
    cut = line if len(line) <= TEXT_CHARS_MAX else line[: TEXT_CHARS_MAX - 4] + " ..."
    body = msgspec.json.encode({"error": cut})
    never_kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(body, status, never_kept, media_type="application/json")


def text_of(error: TallyError) -> str:
    """What is told of an error: no names of families that the caller did not ask for."""
    if isinstance(error, UncountedFamilyError):
        return f"{error.without_others}; /api/v1/families lists those you may read"
    return str(error)


def of_error(error: TallyError) -> Response:
    """The answer to an error that was raised on purpose."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 503)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="tally"'
    if isinstance(error, TooSlowError):
        # The rest of the body may still come, and is no request.
        headers["Connection"] = "close"
    if isinstance(error, TooFastError):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    elif isinstance(error, TryAgainError) and not isinstance(error, UnknownDeliveryError):
        # Who sends again what may be stored risks counting it twice, so nobody is told to.
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return problem(status, text_of(error), headers)


def told(request: Request, error: TallyError) -> Response:
    """The same, with what was turned away counted."""
    reason = REFUSED.get(type(error))
    if reason is not None:
        request.app.state.services.metrics.add(metric.REFUSALS(reason))
    return of_error(error)


def tell_problems(app: FastAPI) -> None:
    """Have the app answer errors like this, whoever raises them."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, TallyError)
        return told(request, error)

    async def on_bad_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem(422, "; ".join(_reason(one) for one in error.errors()))

    async def on_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        is_no_path = error.status_code == 404
        text = "there is no such path: /docs lists them" if is_no_path else str(error.detail)
        return problem(error.status_code, text, error.headers)

    app.add_exception_handler(TallyError, on_error)
    app.add_exception_handler(RequestValidationError, on_bad_request)
    app.add_exception_handler(HTTPException, on_http)


def _reason(found: Mapping[str, object]) -> str:
    """One line of what pydantic found: the field, and what is wrong with it."""
    place = found["loc"] if isinstance(found["loc"], tuple) else ()
    names = [str(part) for part in place if part not in {"query", "path", "body", "header"}]
    text = str(found["msg"]).removeprefix("Value error, ")
    return f"{'.'.join(names)}: {text}" if names else text
