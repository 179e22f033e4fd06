"""What is announced only to be refused: without it, a client would wait for it for ever."""

from typing import Any

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.handlers.context import Context


async def consumer_group_heartbeat(_context: Context, _body: Any) -> dict[str, Any]:
    """Groups whose members the broker assigns (KIP-848). Clients take the answer as final."""
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": "Use group.protocol=classic: the embedded log has no other.",
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 5000,
        "assignment": None,
    }
