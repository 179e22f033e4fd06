"""Who a request says it is from, in any of the ways ClickHouse takes it. Pure."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.embedded.clickhouse import errors

DEFAULT_USER = "default"
_USER_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and the password, which is a token; both are empty when nobody said them."""

    user: str = ""
    password: str = field(default="", repr=False)


def read_credentials(headers: Mapping[str, str], values: Mapping[str, str]) -> Credentials:
    """From the headers (found in any case) and the URL's parameters.

    Raises ClickHouseError when they came in more than one way, as ClickHouse does, or are garbled.
    """
    ways = [
        found
        for found in (
            _authorization(headers.get("Authorization", "")),
            _named(headers.get("X-ClickHouse-User", ""), headers.get("X-ClickHouse-Key", "")),
            _named(values.get("user", ""), values.get("password", "")),
        )
        if found is not None
    ]
    if len(ways) > 1:
        raise refused("", "credentials came in more than one way")
    return ways[0] if ways else Credentials()


def refused(user: str, reason: str) -> errors.ClickHouseError:
    """ClickHouse's error for who is not let in; the reason holds nothing secret."""
    shown = user if user.isprintable() else ""
    return errors.refusal(
        errors.AUTHENTICATION_FAILED,
        f"{shown[:_USER_CHARS_MAX] or DEFAULT_USER}: Authentication failed: {reason}",
    )


def _named(user: str, password: str) -> Credentials | None:
    return Credentials(user, password) if user or password else None


def _authorization(header: str) -> Credentials | None:
    if not header:
        return None
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        return Credentials("", rest.strip())
    if scheme.lower() != "basic":
        raise refused("", "expected Authorization: Basic or Bearer")
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise refused("", "Authorization: Basic cannot be read") from None
    user, _, password = text.partition(":")
    return Credentials(user, password)
