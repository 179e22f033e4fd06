"""JWTs to grants: verified once, then remembered until they expire."""

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from jwt.types import Options
from pydantic import ValidationError

from pipeline.access.errors import BadTokenError
from pipeline.access.grant import Grant
from pipeline.access.granting import granted
from pipeline.access.jwt_key import JwtKey
from pipeline.clock import Clock
from schemas.tokens import RightsTable

JWT_CHARS_MAX = 8192
REMEMBERED_MAX = 1024
NAME_CHARS_MAX = 128
CLAIM = "tally"

_MOMENT_S_MAX = 1e15

_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
# Moments are judged by the clock that was passed in, not by the library's.
_OPTIONS: Options = {
    "require": ["exp"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


def is_jwt(text: str) -> bool:
    """Whether the text has a signed JWT's form."""
    return _FORM.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Verified:
    grant: Grant
    from_s: float
    until_s: float


class Jwts:
    """Verifies JWTs with one key. A signature takes longer to verify than a request to serve, so
    the last REMEMBERED_MAX are remembered, by their hashes."""

    def __init__(self, key: JwtKey, audience: str | None, issuer: str | None, clock: Clock) -> None:
        self._key = key
        self._audience = audience
        self._issuer = issuer
        self._clock = clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def grant_of(self, token: str) -> Grant:
        """Raises BadTokenError; its reason holds nothing of the token."""
        digest = hashlib.sha256(token.encode()).digest()
        found = self._verified.pop(digest, None) or self._verify(token)
        now_s = self._clock.now_ms() / 1000
        if now_s >= found.until_s:
            raise BadTokenError("the JWT has expired")
        if now_s < found.from_s:
            raise BadTokenError("the JWT does not hold yet")
        self._verified[digest] = found
        if len(self._verified) > REMEMBERED_MAX:
            self._verified.popitem(last=False)
        return found.grant

    def _verify(self, token: str) -> _Verified:
        try:
            claims = jwt.decode(
                token,
                self._key.key,
                algorithms=self._key.algorithms,
                audience=self._audience,
                issuer=self._issuer,
                options=_OPTIONS,
            )
        except jwt.PyJWTError as error:
            raise BadTokenError(f"the JWT is refused: {_reason(error)}") from None
        return _Verified(_grant(claims), _moment_s(claims, "nbf", 0.0), _moment_s(claims, "exp"))


def _reason(error: jwt.PyJWTError) -> str:
    """In our words: the library's may repeat what the token holds."""
    match error:
        case jwt.MissingRequiredClaimError():
            return f"it has no {error.claim}"
        case jwt.InvalidAudienceError():
            return "it is for another audience than TALLY_JWT_AUDIENCE"
        case jwt.InvalidIssuerError():
            return "it is by another issuer than TALLY_JWT_ISSUER"
        case jwt.InvalidAlgorithmError():
            return "its algorithm is not one of the key's"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
    return "it cannot be read"


def _grant(claims: Mapping[str, Any]) -> Grant:
    name = claims.get("sub")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise BadTokenError(f"the JWT's sub is no name of 1 to {NAME_CHARS_MAX} characters")
    try:
        return granted(name, RightsTable.model_validate(claims.get(CLAIM)))
    except ValidationError:
        raise BadTokenError(
            f'the JWT\'s claim {CLAIM} is not as {{"read": [...], "write": [...], "admin": [...]}}'
        ) from None


def _moment_s(claims: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadTokenError(f"the JWT's {name} is no moment")
    # A whole number may be too large for a float, with which it is compared.
    if abs(value) > _MOMENT_S_MAX or not math.isfinite(value):
        raise BadTokenError(f"the JWT's {name} is no moment")
    return float(value)
