"""What a handler knows of the question besides its body."""

from typing import NamedTuple

from pipeline.embedded.log.broker import Broker


class Context(NamedTuple):
    broker: Broker
    version: int
    client_id: str
    client_host: str
