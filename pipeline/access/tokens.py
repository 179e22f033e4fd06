"""Tokens: 256 random bits as text, of which only the SHA-256 is kept."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.access.grant import Grant

PREFIX = "tally_"
HASH_PREFIX = "sha256:"
_BYTES = 32
_FORM = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True, slots=True)
class Known:
    """A token as it is known here: by its digest, with what it grants and until when."""

    grant: Grant
    digest: bytes = field(repr=False)
    expires_ms: int | None = None


def new_token() -> str:
    """A token nobody else has: `tally_` and 43 characters that need no quoting in URL or shell."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def is_token(text: str) -> bool:
    """Whether the text has a token's form."""
    return _FORM.fullmatch(text) is not None


def digest_of(token: str) -> bytes:
    """What is kept of a token.

    A fast hash is right here: slow ones make guessing a password dear, of which there are few. Of
    256 random bits there are too many to guess, however fast, and every request is hashed.
    """
    return hashlib.sha256(token.encode()).digest()


def hash_text(digest: bytes) -> str:
    """A digest as files and environment variables have it: `sha256:` and hex digits."""
    return HASH_PREFIX + digest.hex()


def find(known: Iterable[Known], token: str) -> Known | None:
    """The one whose token this is. Takes as long whichever it is, and whether or not it is one."""
    digest = digest_of(token)
    found = None
    for one in known:
        # No early exit, so that the time tells nothing of where in the file a token stands.
        if hmac.compare_digest(one.digest, digest):
            found = one
    return found
