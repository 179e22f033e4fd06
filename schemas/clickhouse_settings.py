"""Where ClickHouse is, and how it is spoken to."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, PlainSerializer, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from schemas.addresses import ClickHouseAddress, ClientCertificate
from schemas.secret_files import check_ca, check_certificate, read_password

DEFAULT_URL: Any = "http://127.0.0.1:18123"
"""As text, so that it is checked and made an address like any other."""


class ClickHouseSettings(BaseSettings):
    """The part of Settings that is about ClickHouse; `clickhouse` is made of all the others."""

    clickhouse_password_file: Path | None = Field(
        default=None, description="A file with the password of the URL's user."
    )
    clickhouse_ca: Path | None = Field(
        default=None, description="Authorities to trust, PEM; unset: the system's."
    )
    clickhouse_key: Path | None = Field(
        default=None, description="The client's key, PEM, if it is not in the certificate's file."
    )
    clickhouse_cert: Path | None = Field(
        default=None, description="The client's certificate, PEM, if ClickHouse asks for one."
    )
    clickhouse_cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
        description="The cluster's name in ClickHouse's remote_servers; unset: a single server.",
    )
    clickhouse_quorum: int = Field(
        default=2,
        ge=1,
        le=100,
        description="Replicas that confirm an insert: as many as each shard has.",
    )
    clickhouse: Annotated[ClickHouseAddress, NoDecode, PlainSerializer(str)] = Field(
        default=DEFAULT_URL, description="ClickHouse's HTTP interface: a URL."
    )

    @field_validator("clickhouse_password_file")
    @classmethod
    def _password_can_be_read(cls, value: Path | None) -> Path | None:
        if value is not None:
            read_password(value)
        return value

    @field_validator("clickhouse_ca")
    @classmethod
    def _ca_can_be_read(cls, value: Path | None) -> Path | None:
        if value is not None:
            check_ca(value)
        return value

    @field_validator("clickhouse_cert")
    @classmethod
    def _certificate_has_its_key(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        key = info.data.get("clickhouse_key")
        if value is not None:
            check_certificate(ClientCertificate(value, key))
        elif key is not None:
            raise ValueError("name the certificate whose key TALLY_CLICKHOUSE_KEY is")
        return value

    @field_validator("clickhouse", mode="plain")
    @classmethod
    def _clickhouse_address(cls, value: object, info: ValidationInfo) -> ClickHouseAddress:
        """A URL, from the environment or from code; what is an address already stays as it is."""
        if isinstance(value, ClickHouseAddress):
            return value
        if not isinstance(value, str):
            raise ValueError("expected a URL such as http://127.0.0.1:18123")  # noqa: TRY004 - pydantic reports ValueErrors
        url = urlsplit(_checked(value.strip().rstrip("/")))
        ca, cert = info.data.get("clickhouse_ca"), info.data.get("clickhouse_cert")
        if url.scheme == "http" and (ca or cert):
            name = "TALLY_CLICKHOUSE_CA" if ca else "TALLY_CLICKHOUSE_CERT"
            raise ValueError(f"expected https, since {name} is set")
        file = info.data.get("clickhouse_password_file")
        if file is not None and url.password is not None:
            raise ValueError("has a password, and TALLY_CLICKHOUSE_PASSWORD_FILE is set, too")
        return ClickHouseAddress(
            url.geturl(),
            None if file is None else read_password(file),
            ca,
            None if cert is None else ClientCertificate(cert, info.data.get("clickhouse_key")),
            info.data.get("clickhouse_cluster"),
            info.data.get("clickhouse_quorum", 2),
        )


def _checked(text: str) -> str:
    # The text is not repeated in these errors, since a URL may carry a password.
    try:
        url = urlsplit(text)
    except ValueError:
        raise ValueError("expected a URL such as http://127.0.0.1:18123") from None
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError("expected a URL such as http://127.0.0.1:18123")
    if url.query or url.fragment:
        raise ValueError("expected a URL without ? and #")
    try:
        port = url.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port in the URL must be from 1 to 65535")
    return text
