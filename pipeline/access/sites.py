"""Where nobody needs a token, no page of another site may ask in its reader's name. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipeline.access.errors import NotAllowedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ELSEWHERE = frozenset({"cross-site", "same-site"})


def check_site(headers: Mapping[str, str]) -> None:
    """Raises NotAllowedError for what a browser was made to send by a page of another site.

    Browsers say whose page asks. A page whose name was turned to this address after it was loaded
    passes for our own, but not by the name it asks for.
    """
    if headers.get("sec-fetch-site") in _ELSEWHERE:
        raise NotAllowedError("requests of other sites' pages are refused")
    if not _names_loopback(headers.get("host", "")):
        raise NotAllowedError(
            "without tokens, only requests to localhost or 127.0.0.1 are answered: "
            "set TALLY_TOKENS to serve under another name"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name is not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=100)
def _names_loopback(header: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return False
