"""What the tests ask of a broker, be it the embedded log or a real Apache Kafka."""

from typing import Protocol


class Broker(Protocol):
    """One broker on loopback with its own data folder. Its port stays the same over restarts."""

    @property
    def name(self) -> str:
        """Which broker this is, for messages and for choosing a fixture."""
        ...

    @property
    def bootstrap(self) -> str:
        """host:port for clients; raises RuntimeError before the first start."""
        ...

    @property
    def pid(self) -> int:
        """Process id of the running broker; raises RuntimeError when it does not run."""
        ...

    @property
    def running(self) -> bool:
        """Whether the process is there now."""
        ...

    def start(self) -> None:
        """Start on the same data and block until clients are served, or raise within a bound."""
        ...

    def stop(self) -> None:
        """End it in order and block until it is gone."""
        ...

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would, and block until it is gone."""
        ...

    def output(self) -> str:
        """What the process wrote since its last start."""
        ...
