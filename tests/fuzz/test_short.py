"""The short form: seeds, corpus and a fixed number of seeded mutations of every target."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import corpus, memory
from tests.fuzz.memory import Growth
from tests.fuzz.mutation import mutated
from tests.fuzz.running import guided_run, is_installed, why_not
from tests.fuzz.targets import BY_SOCKET, TARGETS, Target, load

SEED = 20_260
MUTATIONS = 1_000
SECONDS_MAX = 4.0
"""A slow machine makes fewer mutations, never fewer than the seeds and the corpus."""

INPUT_S_MAX = 10.0
GROWTH_KB_MAX = 400 * 1024
LONG_MINUTES = 10.0


@pytest.mark.parametrize("name", TARGETS)
def test_a_door_keeps_its_promise_on_bytes_that_nobody_would_send(name: str) -> None:
    _check_all(name, load(name), GROWTH_KB_MAX)


def _check_all(name: str, target: Target, growth_kb_max: int) -> None:
    inputs = [*target.seeds(), *corpus.kept(name)]
    began_s, growth = time.monotonic(), Growth()
    for data in inputs:
        _check(name, target, data)
    for data in mutated(SEED, inputs, MUTATIONS, corpus.INPUT_BYTES_MAX):
        if time.monotonic() - began_s > SECONDS_MAX:
            break
        _check(name, target, data)
    assert growth.kb() < growth_kb_max, "memory"


def _check(name: str, target: Target, data: bytes) -> None:
    began_s = time.monotonic()
    try:
        target.check(data)
    except Exception as error:
        path = corpus.keep(corpus.FINDINGS / name, data)
        raise AssertionError(f"python -m tests.fuzz {name} {path}") from error
    assert time.monotonic() - began_s < INPUT_S_MAX, data[:200]


class _Eater:
    """A target that takes on so much memory for one of its inputs, and lets it go again."""

    PROMISE = "none"

    def __init__(self, kb: int) -> None:
        self._kb = kb

    def seeds(self) -> list[bytes]:
        return [b"little", b"much"]

    def check(self, data: bytes) -> None:
        if data == b"much":
            _hold_for_a_moment(self._kb)


def _hold_for_a_moment(kb: int) -> None:
    """From 32 MB on the system has it back at once, whatever was freed before."""
    held = b"x" * (kb << 10)
    assert len(held) == kb << 10


def test_a_door_that_takes_on_memory_is_caught_whatever_was_held_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The most that the process ever held hides all that is below it."""
    if not Growth().forgets:
        pytest.skip("only Linux forgets what a process held before")
    mb, bound_kb = 1024, 20 * 1024
    _hold_for_a_moment(100 * mb)
    with pytest.raises(AssertionError, match=r"^memory"):
        _check_all("eater", _Eater(48 * mb), bound_kb)
    _check_all("eater", _Eater(1), bound_kb)
    monkeypatch.setattr(memory, "_forget_the_most", lambda: False)
    _hold_for_a_moment(100 * mb)
    _check_all("eater", _Eater(48 * mb), bound_kb)


@pytest.mark.prove
@pytest.mark.timeout(LONG_MINUTES * 60 + 1200)
@pytest.mark.parametrize("name", TARGETS)
def test_ten_minutes_of_guided_inputs_find_nothing(name: str) -> None:
    if not is_installed():
        pytest.skip(why_not())
    run = guided_run(name, LONG_MINUTES)
    print(f"{name}: {run.executions} executions, {run.features} features")
    assert not run.findings, run.output[-4000:]
    assert run.executions > 0, run.output[-4000:]
    assert run.code == 0, run.output[-4000:]
    assert run.seconds >= LONG_MINUTES * 60, run.output[-4000:]


def test_the_corpus_is_small() -> None:
    for name in TARGETS:
        assert sum(map(len, corpus.kept(name))) <= corpus.TARGET_BYTES_MAX


def test_every_target_that_is_guided_has_inputs_that_reached_further() -> None:
    guided = set(TARGETS) - set(BY_SOCKET)
    assert {path.name for path in corpus.FOLDER.iterdir()} == guided
    assert [name for name in sorted(guided) if not corpus.kept(name)] == []


def test_the_same_seed_makes_the_same_inputs() -> None:
    inputs = [b"abc", b"\0" * 40]
    first = list(mutated(1, inputs, 50, 100))
    assert first == list(mutated(1, inputs, 50, 100))
    assert first != list(mutated(2, inputs, 50, 100))
    assert len(set(first)) > 25
