"""Whoever owns strict counters, dies or wakes: each id has one answer, the one the log gives it."""

from collections.abc import Iterable

import pytest

from tests.simulation.strict_world import Logged, World

SEEDS = 300
SEEDS_LONG = 20_000
STEPS = 250


def truth(log: list[Logged]) -> dict[tuple[str, str], tuple[bool, int]]:
    """By brute force over the whole log, knowing nothing of states."""
    answers: dict[tuple[str, str], tuple[bool, int]] = {}
    values: dict[str, int] = {}
    granted: dict[str, list[tuple[int, int]]] = {}
    now_ms: dict[str, int] = {}
    for one in log:
        counter, id_ = str(one.fields["counter"]), str(one.fields["id"])
        amount = int(str(one.fields["amount"]))
        now_ms[counter] = max(now_ms.get(counter, 0), one.timestamp_ms)
        if (counter, id_) in answers:
            continue
        value = values.get(counter, 0)
        match one.fields["op"]:
            case "increment":
                values[counter] = value + amount
                answers[counter, id_] = (True, value + amount)
            case "decrement":
                fits = value >= amount
                values[counter] = value - amount if fits else value
                answers[counter, id_] = (fits, values[counter])
            case _:
                here = now_ms[counter] // 50
                used = sum(n for at_ms, n in granted.get(counter, []) if at_ms // 50 == here)
                fits = used + amount <= 12
                if fits:
                    granted.setdefault(counter, []).append((now_ms[counter], amount))
                    used += amount
                answers[counter, id_] = (fits, 12 - used)
    return answers


def is_exact(world: World) -> bool:
    expected = {key: {answer} for key, answer in truth(world.log).items()}
    return world.heard == expected


@pytest.mark.parametrize("block", range(5))
def test_every_id_has_the_answer_of_the_log_alone(block: int) -> None:
    for seed in range(block * SEEDS // 5, (block + 1) * SEEDS // 5):
        world = World(seed)
        world.run(STEPS)
        assert is_exact(world), f"seed {seed}"
        assert world.takeovers > 5


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_every_id_has_the_answer_of_the_log_alone_in_very_many_worlds() -> None:
    for seed in range(SEEDS, SEEDS_LONG):
        world = World(seed)
        world.run(STEPS)
        assert is_exact(world), f"seed {seed}"


@pytest.mark.parametrize(
    ("broken", "seeds"),
    [
        ({"writers_differ": False}, range(SEEDS)),
        ({"patient": False}, range(SEEDS)),
        # Few worlds notice it. Where schedules change, others do: look through thousands of them.
        ({"adopts": False}, [830, 1913]),
        ({"fenced": False}, range(SEEDS)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_tally_that_is_broken_on_purpose_is_found_out(
    broken: dict[str, bool], seeds: Iterable[int]
) -> None:
    def fails(seed: int) -> bool:
        world = World(seed, **broken)
        world.run(STEPS)
        return not is_exact(world)

    assert any(fails(seed) for seed in seeds)
