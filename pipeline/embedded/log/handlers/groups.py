"""Consumer groups: joining, being in, leaving, looking at and deleting them."""

from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.groups import Group
from pipeline.embedded.log.handlers.context import Context
from pipeline.embedded.log.membership import JoinRequest, State

MEMBER_ID_REQUIRED_FROM = 4


async def join_group(context: Context, body: Any) -> dict[str, Any]:
    instance_id = getattr(body, "group_instance_id", None)
    coordinator = context.broker.coordinator
    session_ms = round(body.session_timeout.total_seconds() * 1000)
    rebalance = getattr(body, "rebalance_timeout", None)
    rebalance_ms = session_ms if rebalance is None else round(rebalance.total_seconds() * 1000)
    answer = await coordinator.join(
        body.group_id,
        JoinRequest(
            member_id=body.member_id,
            new_member_id=coordinator.new_member_id(instance_id or context.client_id),
            instance_id=instance_id,
            client_id=context.client_id,
            client_host=context.client_host,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms if rebalance_ms > 0 else session_ms,
            protocol_type=body.protocol_type,
            protocols=[(p.name, p.metadata) for p in body.protocols],
            needs_member_id_first=context.version >= MEMBER_ID_REQUIRED_FROM,
        ),
    )
    # The protocol's name may be null only from version 7 on.
    name = answer.get("protocol_name")
    if name is None and context.version < 7:
        name = ""
    return {
        "generation_id": -1,
        "leader": "",
        "members": [],
        "protocol_type": None,
        **answer,
        "protocol_name": name,
    }


async def sync_group(context: Context, body: Any) -> dict[str, Any]:
    answer = await context.broker.coordinator.sync(
        body.group_id,
        body.member_id,
        getattr(body, "group_instance_id", None),
        body.generation_id,
        {a.member_id: a.assignment for a in body.assignments},
    )
    return {"assignment": b"", **answer}


async def heartbeat(context: Context, body: Any) -> dict[str, Any]:
    code = context.broker.coordinator.heartbeat(
        body.group_id,
        body.member_id,
        getattr(body, "group_instance_id", None),
        body.generation_id,
    )
    return {"error_code": code}


async def leave_group(context: Context, body: Any) -> dict[str, Any]:
    coordinator = context.broker.coordinator
    if context.version < 3:
        return {"error_code": coordinator.leave(body.group_id, body.member_id, None)}
    return {
        "error_code": ErrorCode.none,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": coordinator.leave(
                    body.group_id, member.member_id, member.group_instance_id
                ),
            }
            for member in body.members
        ],
    }


async def list_groups(context: Context, body: Any) -> dict[str, Any]:
    wanted = {state.lower() for state in getattr(body, "states_filter", ())}
    return {
        "error_code": ErrorCode.none,
        "groups": [
            {
                "group_id": group.name,
                "protocol_type": group.protocol_type,
                "group_state": str(group.state),
            }
            for group in context.broker.coordinator.groups.values()
            if not wanted or str(group.state).lower() in wanted
        ],
    }


async def describe_groups(context: Context, body: Any) -> dict[str, Any]:
    known = context.broker.coordinator.groups
    # Each is answered with all of its members: what is named again is told once.
    return {"groups": [_described(name, known.get(name)) for name in dict.fromkeys(body.groups)]}


def _described(name: str, group: Group | None) -> dict[str, Any]:
    if group is None:
        return {
            "error_code": ErrorCode.none,
            "group_id": name,
            "group_state": "Dead",
            "protocol_type": "",
            "protocol_data": "",
            "members": [],
        }
    shows_protocol = group.state is State.STABLE
    return {
        "error_code": ErrorCode.none,
        "group_id": name,
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": (group.protocol or "") if shows_protocol else "",
        "members": [
            {
                "member_id": member.id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata(group.protocol) if shows_protocol else b"",
                "member_assignment": member.assignment if shows_protocol else b"",
            }
            for member in group.members.values()
        ],
    }


async def delete_groups(context: Context, body: Any) -> dict[str, Any]:
    return {
        "results": [
            {"group_id": name, "error_code": context.broker.coordinator.delete(name)}
            for name in body.groups_names
        ]
    }
