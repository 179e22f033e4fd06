"""Which requests bytes are, by a reader that is not the one of the web: h11. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import h11

_BYTES_MAX = 1 << 20
_VERSIONS = (b"1.0", b"1.1")
_PLAIN = h11.Response(status_code=404, headers=[("content-length", "0")])


@dataclass(slots=True)
class Read:
    """A request whose head is whole. `body` is None until that is whole as well."""

    method: bytes
    target: bytes
    names: bytes
    """Of its headers, with commas between."""
    body: bytes | None = None


@dataclass(slots=True)
class Reading:
    """All requests, in order. Without `ended_well`, h11 stopped at what it takes for none, in which
    it is stricter than others.
    """

    requests: list[Read]
    ended_well: bool


def requests_of(sent: bytes) -> Reading:
    """Never raises."""
    found = Reading([], ended_well=True)
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=_BYTES_MAX)
    if sent:  # Nothing would say that the other side has ended.
        reader.receive_data(sent)
    body = bytearray()
    try:
        while (event := reader.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Request):
                found.ended_well = event.http_version in _VERSIONS
                if not found.ended_well:
                    break
                names = b",".join(name for name, _ in event.headers)
                found.requests.append(Read(event.method, event.target, names))
                body.clear()
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                found.requests[-1].body = bytes(body)
                if not _is_read_on(reader):
                    break
    except h11.RemoteProtocolError:
        found.ended_well = False
    return found


def _is_read_on(reader: h11.Connection) -> bool:
    """Once its request is answered."""
    reader.send(_PLAIN)
    reader.send(h11.EndOfMessage())
    if reader.our_state is h11.MUST_CLOSE:
        return False
    reader.start_next_cycle()
    return True
