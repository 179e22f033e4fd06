"""HyperLogLog registers by their definition, for truths: knows nothing of Tally."""

from collections.abc import Iterable

from clickhouse_cityhash.cityhash import CityHash64

REGISTER_BITS = 12
STANDARD_ERROR = 1.04 / 2 ** (REGISTER_BITS / 2)


def registers_of(members: Iterable[str]) -> dict[int, int]:
    """The first bits of a member's hash choose a register, the zeros after them are its rank."""
    ranks: dict[int, int] = {}
    for member in members:
        digits = f"{CityHash64(member.encode()):064b}"
        rest = digits[REGISTER_BITS:]
        register = int(digits[:REGISTER_BITS], 2)
        ranks[register] = max(ranks.get(register, 0), len(rest) - len(rest.lstrip("0")) + 1)
    return ranks
