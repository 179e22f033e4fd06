"""What somebody may do: rights, each for a set of families or for all. Pure and immutable."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from pipeline.access.errors import NotAllowedError

Right = Literal["read", "write", "admin"]
ALL = "*"


@dataclass(frozen=True, slots=True)
class Rights:
    """The families of each right; ALL among them stands for every family."""

    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()

    def families(self, right: Right) -> frozenset[str]:
        """Those that the right holds for: whoever administers a family may read and write it."""
        if right == "read":
            return self.read | self.admin
        if right == "write":
            return self.write | self.admin
        return self.admin


@dataclass(frozen=True, slots=True)
class Grant:
    """Whose request this is, its rights, and how many it may send a second; None: no limit."""

    name: str
    rights: Rights
    rate: float | None = None

    def may(self, right: Right, family: str) -> bool:
        """Whether the right holds for the family, by its name or by ALL."""
        return _holds(self.rights.families(right), family)

    def may_all(self, right: Right) -> bool:
        """Whether it holds for all families, as what concerns no single one needs: status, SQL."""
        return ALL in self.rights.families(right)

    def require(self, right: Right, family: str) -> None:
        """Raises NotAllowedError unless `may`."""
        if not self.may(right, family):
            raise NotAllowedError(f"{self.name} may not {_DOES[right]} the family {family!r}")

    def require_all(self, right: Right) -> None:
        """Raises NotAllowedError unless `may_all`."""
        if not self.may_all(right):
            raise NotAllowedError(f"{self.name} may not {_DOES[right]} all families")


_DOES: dict[Right, str] = {"read": "read", "write": "write", "admin": "administer"}


def _holds(families: AbstractSet[str], family: str) -> bool:
    return family in families or ALL in families
