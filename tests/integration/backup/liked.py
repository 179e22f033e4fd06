"""Likes and unlikes with many repeats: of each member one counts. Knows nothing of Tally."""

import json
import zlib
from dataclasses import dataclass, field

from tests.integration.backup.stream import PlacedStream
from tests.integration.worker.events import MINUTE_MS, PARTITIONS, Event, Message, Messages, Truth

POSTS, PEOPLE = 5, 20


@dataclass(slots=True)
class OnceTruth(Truth):
    """An event counts if it brings its member in or out; any other is a repeat."""

    inside: set[tuple[str, str]] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Count an event, unless its member is where it wants it."""
        pair = (event.counter, event.member)
        if (pair in self.inside) == (event.delta > 0):
            self.duplicates[event.counter] += 1
            # A repeat has a place in its window, in which it changes nothing.
            self.windows[event.counter, event.region, event.at // MINUTE_MS * 60] += 0
            return
        (self.inside.add if event.delta > 0 else self.inside.remove)(pair)
        Truth.add(self, event)


class LikeMessages(Messages):
    """An endless stream of likes and unlikes; a member's are all in one partition."""

    def next(self, now_ms: int) -> Message:
        chance = self._random
        member = f"person-{chance.randrange(PEOPLE)}"
        event = Event(
            counter=f"{self._family}:post-{chance.randrange(POSTS)}",
            delta=chance.choice((1, 1, -1)),
            at=now_ms - chance.randrange(3) * MINUTE_MS,
            region=chance.choice(("eu", "us", "")),
            member=member,
            id=None,
        )
        partition = zlib.crc32(member.encode()) % PARTITIONS
        value = json.dumps(event.document()).encode()
        return Message(partition, value, [event], [], is_frame=False)


class LikedStream(PlacedStream):
    """A stream of them; `inside` are the pairs of counter and member that were in before it."""

    def __init__(
        self, kafka: str, family: str, seed: int, inside: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        super().__init__(kafka, family, seed)
        self._messages = LikeMessages(family, seed)
        self._inside = inside

    def nothing_counted(self) -> OnceTruth:
        return OnceTruth(inside=set(self._inside))
