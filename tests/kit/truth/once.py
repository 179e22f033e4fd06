"""Members that count once: which increments do, by the order that the log has them in. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.kit.truth.kinds import ONCE, family_of
from tests.kit.truth.record import Document, Record


def decided(logged: Iterable[Document]) -> list[Document]:
    """What each of the log's increments adds, in its order: repeats add 0 where they fell.

    Who is in and is put in again, or is not in and is taken back, changes nothing; nor does an id
    that was there before, of which nothing is left here. All increments of a member are on one
    partition, so that each partition's order is enough.
    """
    counted: list[Document] = []
    inside: set[tuple[str, str]] = set()
    ids: set[tuple[str, str]] = set()
    for one in logged:
        if "id" in one:
            if (one["counter"], one["id"]) in ids:
                continue
            ids.add((one["counter"], one["id"]))
        who = (one["counter"], one["member"])
        if (who in inside) == (one["delta"] > 0):
            # Its window has a cell for it, which counts repeats, and so a number: 0.
            counted.append({**one, "delta": 0})
            continue
        (inside.add if one["delta"] > 0 else inside.remove)(who)
        counted.append(one)
    return counted


def settle_once(record: Record, logged: Sequence[Document]) -> list[str]:
    """What is wrong with the log: what it lacks of these families, or has and nobody sent.

    What has an id may be there again and again; what has none is there as often as it was sent.
    """
    sent = Counter(_key(one) for one in record.acknowledged if family_of(one) in ONCE)
    found = Counter(map(_key, logged))
    wrong = []
    for key in sorted({*sent, *found}, key=str):
        has_id = bool(key[-1])
        if bool(sent[key]) != bool(found[key]) or (not has_id and sent[key] != found[key]):
            wrong.append(f"the log has {found[key]} times what was sent {sent[key]} times: {key}")
    return wrong


def _key(one: Document) -> tuple[object, ...]:
    return (
        *(one["counter"], one["member"], one["delta"], one["at"], one.get("region", "")),
        one.get("id", ""),
    )
