"""From what somebody sent to what they may do: one object per server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pipeline.access.buckets import Buckets
from pipeline.access.errors import BadTokenError, NoTokenError, TooFastError
from pipeline.access.jwt_key import load_jwt_key
from pipeline.access.jwts import JWT_CHARS_MAX, Jwts, is_jwt
from pipeline.access.token_file import TokenFile
from pipeline.access.tokens import Known, find, is_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.access.grant import Grant
    from pipeline.clock import Clock
    from schemas.settings import Settings


class Access:
    """Tokens of a file, JWTs, or both. Any thread may ask."""

    def __init__(
        self,
        clock: Clock,
        *,
        file: TokenFile | None = None,
        jwts: Jwts | None = None,
        also: Sequence[Known] = (),
        rate_max: float = 0.0,
    ) -> None:
        """`also` are tokens beside the file's, which have no limit but their own."""
        self._clock = clock
        self._file = file
        self._jwts = jwts
        self._also = tuple(also)
        self._rate_max = rate_max
        self._buckets = Buckets()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings, clock: Clock, also: Sequence[Known] = ()) -> Access | None:
        """As the settings say; None when they name neither a token file nor a key for JWTs.

        Reads the disk. Raises OperatorError when either cannot be used.
        """
        if settings.tokens is None and settings.jwt_key is None:
            return None
        jwts = None
        if settings.jwt_key is not None:
            key = load_jwt_key(settings.jwt_key)
            jwts = Jwts(key, settings.jwt_audience, settings.jwt_issuer, clock)
        file = None if settings.tokens is None else TokenFile(settings.tokens, clock)
        return cls(clock, file=file, jwts=jwts, also=also, rate_max=settings.rate_max)

    def grant_of(self, token: str | None) -> Grant:
        """What the token grants, for one request, which is taken off its rate.

        Blocks for a look at the disk now and then, and tens of microseconds for a new JWT. Raises
        NoTokenError for None and "", BadTokenError, and TooFastError.
        """
        if not token:
            raise NoTokenError
        # A bound comes before anything else that reads the text.
        if len(token) > JWT_CHARS_MAX or not token.isascii():
            raise BadTokenError("this is no token")
        with self._lock:
            if is_token(token):
                return self._known(token)
            if self._jwts is not None and is_jwt(token):
                grant = self._jwts.grant_of(token)
                # Names in JWTs are not those of the file: one must not use up the other's rate.
                self._charge("jwt", grant, self._rate_max)
                return grant
        raise BadTokenError("this is no token")

    def _known(self, token: str) -> Grant:
        ours = find(self._also, token)
        if ours is not None:
            self._charge("also", ours.grant, 0.0)
            return ours.grant
        found = None if self._file is None else find(self._file.known(), token)
        if found is None:
            raise BadTokenError("the token is not known, or was revoked")
        if found.expires_ms is not None and self._clock.now_ms() >= found.expires_ms:
            raise BadTokenError(f"the token {found.grant.name} has expired")
        self._charge("file", found.grant, self._rate_max)
        return found.grant

    def _charge(self, source: str, grant: Grant, rate_max: float) -> None:
        rate = grant.rate or rate_max
        if rate > 0:
            wait_s = self._buckets.take((source, grant.name), rate, self._clock.monotonic_s())
            if wait_s > 0:
                raise TooFastError(grant.name, wait_s)
