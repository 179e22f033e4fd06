"""JWTs: the key decides the algorithm, every claim is checked, and nothing secret is repeated."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pipeline.access.access import Access
from pipeline.access.errors import BadTokenError, TooFastError
from pipeline.access.jwt_key import parse_jwt_key
from pipeline.access.jwts import JWT_CHARS_MAX, REMEMBERED_MAX, Jwts, _moment_s
from pipeline.access.tokens import digest_of, hash_text, new_token
from pipeline.errors import OperatorError
from schemas.settings import Settings
from tests.kit.clocks import ManualClock

SECRET = os.urandom(64).hex().encode()
CLAIMS: dict[str, Any] = {"sub": "ada", "exp": 2000, "tally": {"read": ["likes"], "rate": 5}}
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def signed(key: Any = SECRET, algorithm: str = "HS256", **other: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **other}.items() if value is not None}
    return jwt.encode(claims, key, algorithm)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def jwts(clock: ManualClock) -> Jwts:
    return Jwts(parse_jwt_key(SECRET + b"\n"), None, None, clock)


def refusal(jwts: Jwts, token: str) -> str:
    with pytest.raises(BadTokenError) as refused:
        jwts.grant_of(token)
    for part in [token, *token.split(".")]:
        assert not part or part not in str(refused.value)
    return str(refused.value)


def test_a_jwt_grants_what_its_claim_says(jwts: Jwts) -> None:
    grant = jwts.grant_of(signed())
    assert (grant.name, grant.rate) == ("ada", 5)
    assert grant.may("read", "likes")
    assert not grant.may("write", "likes")
    assert not grant.may_all("read")


@pytest.mark.parametrize(
    ("make", "algorithms"),
    [
        (lambda: rsa.generate_private_key(65537, 2048), ["RS256", "PS384"]),
        (lambda: ec.generate_private_key(ec.SECP256R1()), ["ES256"]),
        (lambda: ec.generate_private_key(ec.SECP384R1()), ["ES384"]),
        (ed25519.Ed25519PrivateKey.generate, ["EdDSA"]),
    ],
)
def test_public_keys_verify_what_their_private_halves_signed(
    make: Callable[[], PrivateKey], algorithms: list[str], clock: ManualClock
) -> None:
    key, other = make(), make()
    jwts = Jwts(parse_jwt_key(pem(key)), None, None, clock)
    for algorithm in algorithms:
        assert jwts.grant_of(signed(key, algorithm)).name == "ada"
        assert "signature is wrong" in refusal(jwts, signed(other, algorithm))


def test_a_public_key_never_passes_for_a_secret(clock: ManualClock) -> None:
    public = pem(rsa.generate_private_key(65537, 2048))
    jwts = Jwts(parse_jwt_key(public), None, None, clock)
    # The library refuses to sign so, which an attacker's does not.
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "typ": "JWT"}, CLAIMS)
    )
    algorithm = jwt.get_algorithm_by_name("HS256")
    mac = base64.urlsafe_b64encode(algorithm.sign(head + b"." + body, public)).rstrip(b"=")
    forged = b".".join([head, body, mac]).decode()
    assert "algorithm is not one of the key's" in refusal(jwts, forged)


def test_a_jwt_without_signature_is_refused(jwts: Jwts, clock: ManualClock) -> None:
    bare = jwt.encode(CLAIMS, "", "none")
    assert "algorithm is not one of the key's" in refusal(jwts, bare + "AAAA")
    with pytest.raises(BadTokenError):
        Access(clock, jwts=jwts).grant_of(bare)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"exp": None}, "has no exp"),
        ({"exp": 999}, "has expired"),
        ({"exp": 1000}, "has expired"),
        ({"nbf": 1001}, "not hold yet"),
        ({"nbf": "soon"}, "nbf is no moment"),
        ({"aud": "others"}, "another audience"),
        ({"sub": None}, "sub is no name"),
        ({"sub": ""}, "sub is no name"),
        ({"sub": "a\nb"}, "sub is no name"),
        ({"sub": "a" * 129}, "sub is no name"),
        ({"tally": None}, "claim tally"),
        ({"tally": ["likes"]}, "claim tally"),
        ({"tally": {"read": "*"}}, "claim tally"),
        ({"tally": {"read": ["a:b"]}}, "claim tally"),
        ({"tally": {"reads": ["*"]}}, "claim tally"),
        ({"tally": {"rate": 0}}, "claim tally"),
        ({"tally": {"hash": "sha256:00"}}, "claim tally"),
    ],
)
def test_anything_odd_is_refused_with_its_reason(
    other: dict[str, Any], said: str, jwts: Jwts
) -> None:
    assert said in refusal(jwts, signed(**other))


@pytest.mark.parametrize("exp", [True, "2000", float("inf"), [2000]])
def test_an_odd_exp_is_refused(exp: object, jwts: Jwts) -> None:
    assert "JWT" in refusal(
        jwts, jwt.api_jws.encode(json.dumps({**CLAIMS, "exp": exp}).encode(), SECRET)
    )


def test_audience_and_issuer_are_checked_when_set(clock: ManualClock) -> None:
    jwts = Jwts(parse_jwt_key(SECRET), "tally", "https://id.example", clock)
    good: dict[str, Any] = {"aud": ["tally", "other"], "iss": "https://id.example"}
    assert jwts.grant_of(signed(**good)).name == "ada"
    assert "another audience" in refusal(jwts, signed(**{**good, "aud": "x"}))
    assert "another issuer" in refusal(jwts, signed(**{**good, "iss": "x"}))
    assert "has no aud" in refusal(jwts, signed(iss=good["iss"]))
    assert "has no iss" in refusal(jwts, signed(aud="tally"))


def test_a_remembered_jwt_is_not_verified_again_and_still_expires(
    jwts: Jwts, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = signed()
    jwts.grant_of(token)

    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("verified again")

    monkeypatch.setattr(jwt, "decode", refuse)
    assert jwts.grant_of(token).name == "ada"
    clock.now_s = 2000.0
    assert "expired" in refusal(jwts, token)


def test_only_so_many_are_remembered(jwts: Jwts) -> None:
    for number in range(REMEMBERED_MAX + 5):
        jwts.grant_of(signed(sub=f"n{number}"))
    assert len(jwts._verified) == REMEMBERED_MAX


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"short", "at least 32 bytes"),
        (b"x" * 31 + b"\n", "at least 32 bytes"),
        (b"x" * 70_000, "at most"),
        (b"-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----\n", "no PEM public key"),
    ],
)
def test_a_key_that_is_none_is_refused_at_the_start(
    content: bytes, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(OperatorError, match=f"TALLY_JWT_KEY: .*{said}"):
        Access.of(Settings(jwt_key=file), ManualClock())


def test_private_small_and_odd_keys_are_refused() -> None:
    private = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    odd = [
        (private, "private key"),
        (pem(rsa.generate_private_key(65537, 1024)), "at least 2048 bits"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "expected a key for"),
    ]
    for content, said in odd:
        with pytest.raises(ValueError, match=said):
            parse_jwt_key(content)


def test_a_short_secret_does_not_verify_longer_hashes() -> None:
    assert parse_jwt_key(b"x" * 32).algorithms == ("HS256",)
    assert parse_jwt_key(b"x" * 64).algorithms == ("HS256", "HS384", "HS512")


def test_access_tells_jwts_from_tokens_by_their_form(tmp_path: Path, clock: ManualClock) -> None:
    key, tokens, token = tmp_path / "key", tmp_path / "tokens.toml", new_token()
    key.write_bytes(SECRET)
    tokens.write_text(f'[tokens.ada]\nhash = "{hash_text(digest_of(token))}"\nrate = 1\n')
    access = Access.of(Settings(jwt_key=key, tokens=tokens), clock)
    assert access is not None
    assert access.grant_of(token).rate == 1
    assert access.grant_of(signed()).rate == 5
    access.grant_of(token)
    with pytest.raises(TooFastError):
        access.grant_of(token)
    assert access.grant_of(signed()).rate == 5, "the same name, but another's rate"
    with pytest.raises(BadTokenError, match="no token"):
        access.grant_of(signed(pad="x" * JWT_CHARS_MAX))


def test_keys_are_in_no_repr() -> None:
    assert SECRET.decode() not in repr(parse_jwt_key(SECRET))
    assert "xxxx" not in repr(parse_jwt_key(b"x" * 32))


@pytest.mark.parametrize("moment", [10**400, -(10**400), 1e300])
def test_a_moment_too_large_for_a_number_is_none(moment: float) -> None:
    with pytest.raises(BadTokenError, match="exp is no moment"):
        _moment_s({"exp": moment}, "exp")
