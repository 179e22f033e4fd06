"""Who may join a group: what the broker refuses at the door, by the protocol's own codes."""

import pytest

from tests.integration.log.clients import unique
from tests.integration.log.wire import Wire
from tests.kit.brokers import Broker

INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26


def test_a_member_without_a_common_protocol_is_refused(broker: Broker) -> None:
    group = unique("group")
    with Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as other:
        member = wire.join_alone(group)
        other.send_join(group, protocol="of its own")
        assert other.receive_join().error == INCONSISTENT_GROUP_PROTOCOL
        assert wire.heartbeat(group, member.generation, member.member) == 0


@pytest.mark.parametrize("timeout_ms", [1, 2**31 - 1])
def test_an_impossible_session_time_out_is_refused(broker: Broker, timeout_ms: int) -> None:
    group = unique("group")
    with Wire(broker.bootstrap) as wire:
        wire.join_alone(group)
        wire.send_join(group, timeout_ms=timeout_ms)
        assert wire.receive_join().error == INVALID_SESSION_TIMEOUT


def test_a_member_id_the_broker_never_gave_is_refused(broker: Broker) -> None:
    group = unique("group")
    with Wire(broker.bootstrap) as wire:
        member = wire.join_alone(group)
        assert wire.join(group, "made up").error == UNKNOWN_MEMBER_ID
        assert wire.heartbeat(group, member.generation, member.member) == 0


def test_a_group_without_a_name_is_refused(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.join_alone(unique("group"))
        assert wire.join("").error == INVALID_GROUP_ID
