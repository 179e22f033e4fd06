"""Which families count otherwise than by adding up, by their names. Pure.

The rules that make them so are those of whoever runs the site (tests/chaos/rules.py has them); here
is what must come of them, by docs/once-per-member.md, docs/sketches and docs/strict.md.
"""

from tests.kit.truth.record import Document

ONCE = frozenset({"hearts"})
"""A member counts once per counter until taken back."""

SKETCHED = {"words": 0.02}
"""No cells of their own but the family's sum; each counter is an estimate with such an error."""

MEMBERS_BY_MINUTES = frozenset({"views"})
"""Members are kept by minutes, too; those of other families by hours and days alone."""

STRICT = frozenset({"stock", "calls", "rate"})
"""Each command is decided, and has an answer."""


def family_of(document: Document) -> str:
    """The part of its counter before the first colon."""
    family: str = document["counter"].partition(":")[0]
    return family


def summed(document: Document) -> Document:
    """The increment as cells have it: of a sketched family, in its sum, of no region."""
    family = family_of(document)
    return {**document, "counter": f"{family}:", "region": ""} if family in SKETCHED else document
