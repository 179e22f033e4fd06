"""A real Apache Kafka with users and TLS: what it takes to be let in, as Tally's settings."""

from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, though not in its __all__
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kit.certificates import Authority
from tests.kit.kafka import RealKafka
from tests.kit.kafka_node import HOST, Guarded
from tests.kit.processes import free_port

USER = "tally"
PASSWORD = 'pass "word"; \\ü'
"""With all that a careless writer of settings would trip over."""

_LOGIN = "org.apache.kafka.common.security"
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT"
_TIMEOUT_S = 30


class GuardedKafka(RealKafka):
    """Beside the plain listener of tests: one for users over TLS, one for clients' certificates."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._users_port, self._certificates_port = free_port(), free_port()
        self._authority = authority
        cert, key = authority.certificate("broker")
        keystore = cert.with_name("broker-keystore.pem")
        keystore.write_bytes(key.read_bytes() + cert.read_bytes())
        settings = {
            "listener.security.protocol.map": _PROTOCOLS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'{_LOGIN}.plain.PlainLoginModule required user_plain="{USER}";'
            ),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                f"{_LOGIN}.scram.ScramLoginModule required;"
            ),
        }
        ports = {"SASL_SSL": self._users_port, "SSL": self._certificates_port}
        super().__init__(folder, Guarded(ports, settings))

    def start(self) -> None:
        """As Broker.start; the user is there afterwards."""
        super().start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, how, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[USER].result(_TIMEOUT_S)

    @property
    def as_user(self) -> dict[str, str]:
        """Settings of somebody who logs in."""
        return {
            "TALLY_KAFKA": f"{HOST}:{self._users_port}",
            "TALLY_KAFKA_SECURITY": "sasl_ssl",
            "TALLY_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
            "TALLY_KAFKA_USER": USER,
            "TALLY_KAFKA_PASSWORD": PASSWORD,
            "TALLY_KAFKA_CA": str(self._authority.ca),
        }

    def with_certificate(self) -> dict[str, str]:
        """Settings of somebody who shows a certificate whose key has a password."""
        cert, key = self._authority.certificate("client", key_password=PASSWORD)
        return {
            "TALLY_KAFKA": f"{HOST}:{self._certificates_port}",
            "TALLY_KAFKA_SECURITY": "ssl",
            "TALLY_KAFKA_CA": str(self._authority.ca),
            "TALLY_KAFKA_CERT": str(cert),
            "TALLY_KAFKA_KEY": str(key),
            "TALLY_KAFKA_KEY_PASSWORD": PASSWORD,
        }
