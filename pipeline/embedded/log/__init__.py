"""A durable single-node log that speaks the Kafka protocol, as its own process.

Start it with `python -m pipeline.embedded.log --data DIR --port N`. The path of a request:
server.py reads frames, protocol/ turns bytes into requests, handlers/ answer them, and
partition.py, coordinator.py and meta.py hold what must survive.
"""

from pipeline.embedded.log.kio_alone import import_kio

import_kio()  # Before any module here imports kio in its own way.
