"""Where servers are and how they are reached: what clients are made from.

The text of an address is what may be shown to people; neither it nor its representation has a
password in it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from schemas.host_port import split_host_port

KafkaProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def with_user(url: str, user: str, password: str) -> str:
    """The URL with a user and a password of URL-safe characters in it, in the place of others."""
    parts = urlsplit(without_secrets(url))
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a client shows of itself: PEM files. Without `key`, the key is in the same file."""

    cert: Path
    key: Path | None = None
    key_password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """How brokers are spoken to. Without `ca`, the system's authorities are trusted."""

    protocol: KafkaProtocol = "plaintext"
    mechanism: SaslMechanism | None = None
    user: str | None = None
    password: SecretStr | None = None
    ca: Path | None = None
    certificate: ClientCertificate | None = None

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted, and brokers show certificates."""
        return self.protocol in {"ssl", "sasl_ssl"}

    @property
    def uses_sasl(self) -> bool:
        """Whether a user logs in."""
        return self.protocol in {"sasl_plaintext", "sasl_ssl"}


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Brokers to begin with, and how all brokers are spoken to; plainly unless told otherwise."""

    hosts: str
    """`host:port`, or several with commas between."""
    security: KafkaSecurity = field(default_factory=KafkaSecurity)

    @property
    def first(self) -> tuple[str, int]:
        """Host and port of the first one."""
        return split_host_port(self.hosts.split(",")[0])

    def __str__(self) -> str:
        return self.hosts


@dataclass(frozen=True, slots=True)
class ClickHouseAddress:
    """The URL of an HTTP interface; https means TLS, for which the files are.

    `password` is that of the URL's user, if it is not in the URL. Without `ca`, the system's
    authorities are trusted. `cluster` is the name of the cluster that it is a server of, if its
    tables are to be those of a cluster; an insert is then confirmed by `quorum` replicas.
    """

    url: str
    password: SecretStr | None = None
    ca: Path | None = None
    certificate: ClientCertificate | None = None
    cluster: str | None = None
    quorum: int = 2

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted, and the server shows a certificate."""
        return urlsplit(self.url).scheme == "https"

    @property
    def user(self) -> str:
        """Who asks."""
        return urlsplit(self.url).username or "default"

    @property
    def has_password(self) -> bool:
        """Whether there is one, in the URL or beside it."""
        return self.password is not None or urlsplit(self.url).password is not None

    @property
    def host_port(self) -> tuple[str, int]:
        """Where it listens; without a port in the URL, where ClickHouse does by itself."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (8443 if self.uses_tls else 8123)

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __repr__(self) -> str:
        return f"ClickHouseAddress({str(self)!r})"
