"""What comes in an Authorization header: tokens and JWTs, of which some are signed rightly."""

from __future__ import annotations

import base64
import hashlib
import hmac

from pipeline.access.access import Access
from pipeline.access.errors import BadTokenError, NoTokenError, TooFastError
from pipeline.access.jwt_key import parse_jwt_key
from pipeline.access.jwts import Jwts
from tests.kit.clocks import ManualClock

PROMISE = "a grant for what is signed rightly, or BadTokenError that repeats nothing of the token"

SECRET = b"0123456789abcdef0123456789abcdef"
_HEADER = b'{"alg":"HS256","typ":"JWT"}'
_CLOCK = ManualClock()
_ACCESS = Access(_CLOCK, jwts=Jwts(parse_jwt_key(SECRET), "tally", None, _CLOCK))


def seeds() -> list[bytes]:
    claims = b'{"sub":"ada","exp":9999999999,"aud":"tally","tally":{"read":["*"],"rate":5.5}}'
    return [
        b"\0" + _HEADER + b"\n" + claims,
        b"\0" + _HEADER + b'\n{"sub":"ada","exp":1e400,"aud":["tally"],"tally":{"write":["x"]}}',
        b"\0" + _HEADER + b'\n{"sub":"ada","exp":' + b"9" * 400 + b',"aud":"tally","tally":{}}',
        b"\0" + _HEADER + b"\n" + b"[" * 3000,
        b"\0" + b"[" * 3000 + b"\n{}",
        b'\0{"alg":"none"}\n{}',
        b'\0{"alg":"HS256","crit":["b64"],"b64":false}\n{}',
        b"\1tally_" + b"A" * 43,
        b"\1" + base64.urlsafe_b64encode(_HEADER).rstrip(b"=") + b".e30.c2ln",
    ]


def check(data: bytes) -> None:
    """The first byte tells whether header and payload, a line each, are signed or all is a text."""
    token = _signed(data[1:]) if data[:1] == b"\0" else data[1:].decode("utf-8", "replace")
    try:
        grant = _ACCESS.grant_of(token)
    except NoTokenError:
        assert not token
        return
    except TooFastError:
        _CLOCK.advance(1.0)
        return
    except BadTokenError as error:
        assert token not in str(error) or len(token) < 8
        return
    assert data[:1] == b"\0", "a token that nobody signed was taken"
    assert grant.name


def _signed(lines: bytes) -> str:
    header, _, payload = lines.partition(b"\n")
    signing = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    signature = hmac.new(SECRET, signing, hashlib.sha256).digest()
    return f"{signing.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
