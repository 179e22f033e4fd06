"""librdkafka's mock cluster in a process of its own: `python -m benchmarks._mock_cluster`.

It lives inside a client. This client does nothing else, so the process's time is the broker's.
"""

import signal

from confluent_kafka import Producer

START_TIMEOUT_S = 10


def main() -> None:
    """Says where it listens, then serves until it is ended."""
    client = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = client.list_topics(timeout=START_TIMEOUT_S).brokers.values()
    print(f"mock ready on {broker.host}:{broker.port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
