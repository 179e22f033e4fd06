"""Reading outside of any group, as `tally tail` and `tally verify` do."""

from confluent_kafka import TopicPartition

from pipeline.groupless import UNTOLD, groupless_consumer, headers_of, next_messages
from schemas.addresses import KafkaAddress
from tests.integration.log.clients import Clients
from tests.integration.log.wire import Wire
from tests.kit.brokers import Broker
from tests.kit.odd_headers import odd_batch

PATIENCE_S = 20


def test_a_header_whose_name_is_no_text_stops_no_reader(broker: Broker, clients: Clients) -> None:
    topic = clients.topic()
    kind = [("tally-kind", b"increments")]
    with Wire(broker.bootstrap) as wire:
        assert wire.produce(topic, odd_batch(b"a", b"b", b"c", headers=kind, odd=1))[0] == 0
    consumer = groupless_consumer(KafkaAddress(broker.bootstrap))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[object, object]] = []
        while len(found) < 3:
            messages = next_messages(consumer, 10, PATIENCE_S)
            assert messages
            found += [(one.value(), headers_of(one)) for one in messages if one.error() is None]
    finally:
        consumer.close()
    assert found == [(b"a", tuple(kind)), (b"b", UNTOLD), (b"c", tuple(kind))]
    assert found[1][1] is UNTOLD
