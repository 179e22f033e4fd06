"""The key that JWTs are verified with, and the algorithms that go with its kind."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from pipeline.errors import OperatorError

SECRET_BYTES_MIN = 32
RSA_BITS_MIN = 2048
FILE_BYTES_MAX = 1 << 16

# An HMAC's secret must be as long as its hash to be as strong.
_HMAC = {"HS256": 32, "HS384": 48, "HS512": 64}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class JwtKey:
    """A key and what may be verified with it.

    The algorithms follow from the key alone. If a token's header could choose, a public key that
    everybody has would pass for an HMAC's secret.
    """

    key: bytes | PublicKey = field(repr=False)
    algorithms: tuple[str, ...]


def load_jwt_key(path: Path) -> JwtKey:
    """Reads the disk; raises OperatorError, which holds nothing of the key."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise OperatorError(f"TALLY_JWT_KEY: {path} cannot be read: {error.strerror}") from None
    try:
        return parse_jwt_key(content)
    except ValueError as error:
        raise OperatorError(f"TALLY_JWT_KEY: {path}: {error}") from None


def parse_jwt_key(content: bytes) -> JwtKey:
    """The key in a file's content; raises ValueError with what is expected. Pure."""
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"a key has at most {FILE_BYTES_MAX} bytes")
    if b"-----BEGIN" in content:
        return _public(content)
    # Editors and `echo` end a file with a line break that nobody means as a part of the secret.
    secret = content.rstrip(b"\r\n")
    if len(secret) < SECRET_BYTES_MIN:
        raise ValueError(
            f"a secret has at least {SECRET_BYTES_MIN} bytes; `openssl rand -hex 32` makes one"
        )
    fitting = (name for name, bytes_min in _HMAC.items() if len(secret) >= bytes_min)
    return JwtKey(secret, tuple(fitting))


def _public(content: bytes) -> JwtKey:
    if b"PRIVATE KEY-----" in content:
        raise ValueError("it is a private key; only its public half belongs here")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is no PEM public key; expected RSA, EC or Ed25519") from None
    if isinstance(key, RSAPublicKey):
        if key.key_size < RSA_BITS_MIN:
            raise ValueError(f"an RSA key has at least {RSA_BITS_MIN} bits")
        return JwtKey(key, _RSA)
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return JwtKey(key, (_CURVES[key.curve.name],))
    if isinstance(key, Ed25519PublicKey):
        return JwtKey(key, ("EdDSA",))
    raise ValueError("expected a key for RSA, EC (P-256, P-384, P-521) or Ed25519")
