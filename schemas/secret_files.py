"""Files that settings name: certificates and passwords. Each is looked into when settings load.

All raise ValueError with what is wrong; no message has anything of what a file holds.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pydantic import SecretStr

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.addresses import ClientCertificate


def read_password(file: Path) -> SecretStr:
    """The password that is all of a file but for the end of its line."""
    try:
        text = file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    if not text or "\n" in text:
        raise ValueError(f"{file} must hold the password on its one line")
    return SecretStr(text)


def check_ca(file: Path) -> None:
    """The certificates of authorities to trust, one or more, as PEM."""
    _check_readable(file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        raise ValueError(f"{file} has no certificates in PEM form") from None


def check_certificate(certificate: ClientCertificate) -> None:
    """A client's certificate and its key, as PEM, that belong together."""
    _check_readable(certificate.cert)
    if certificate.key is not None:
        _check_readable(certificate.key)
    try:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate)
    except (ssl.SSLError, ValueError):
        where = certificate.key or certificate.cert
        raise ValueError(
            f"{where} has no key in PEM form that fits {certificate.cert} and its password"
        ) from None


def load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Have a context show a certificate. Raises ssl.SSLError, OSError."""
    password = certificate.key_password
    # Without a password OpenSSL would ask whoever sits at the terminal for one.
    given = password.get_secret_value() if password else ""
    context.load_cert_chain(certificate.cert, certificate.key, given)


def _check_readable(file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from None
