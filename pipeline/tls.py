"""TLS as clients use it: servers must show a certificate of a trusted authority and their name."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pipeline.errors import OperatorError
from schemas.secret_files import load_certificate

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.addresses import ClientCertificate


def client_context(ca: Path | None, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Trusts the authorities in `ca`, or the system's; shows the certificate, if there is one.

    Raises OperatorError for files that changed for the worse since settings were loaded.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            load_certificate(context, certificate)
    except (OSError, ValueError) as error:
        raise OperatorError(f"the files for TLS cannot be used ({error}): check them") from None
    return context


def why(error: BaseException) -> str:
    """What OpenSSL has against a connection, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()
