"""Random choices from a seed: the same seed makes the same ones again."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice(random.Random):
    """Chooses faster than `random.Random`, which a schedule does hundreds of times.

    Its choices are even to one part in 2^53 divided by the number of things to choose from.
    """

    def choice(self, things: Sequence[T]) -> T:  # type: ignore[override]  # Fewer kinds of things.
        return things[int(self.random() * len(things))]

    def below(self, end: int) -> int:
        """A whole number from 0 on."""
        return int(self.random() * end)
