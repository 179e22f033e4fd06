"""The short form: seeds, corpus and a fixed number of seeded mutations of every target."""

from __future__ import annotations

import resource
import time

import pytest

from tests.fuzz import corpus
from tests.fuzz.mutation import mutated
from tests.fuzz.running import guided_run, is_installed, why_not
from tests.fuzz.targets import TARGETS, load

SEED = 20_260
MUTATIONS = 1_000
SECONDS_MAX = 4.0
"""A slow machine makes fewer mutations, never fewer than the seeds and the corpus."""

INPUT_S_MAX = 10.0
GROWTH_KB_MAX = 400 * 1024
LONG_MINUTES = 10.0


@pytest.mark.parametrize("name", TARGETS)
def test_a_door_keeps_its_promise_on_bytes_that_nobody_would_send(name: str) -> None:
    target = load(name)
    inputs = [*target.seeds(), *corpus.kept(name)]
    began_s, before_kb = time.monotonic(), _most_memory_kb()
    for data in inputs:
        _check(name, data)
    for data in mutated(SEED, inputs, MUTATIONS, corpus.INPUT_BYTES_MAX):
        if time.monotonic() - began_s > SECONDS_MAX:
            break
        _check(name, data)
    assert _most_memory_kb() - before_kb < GROWTH_KB_MAX


def _check(name: str, data: bytes) -> None:
    began_s = time.monotonic()
    try:
        load(name).check(data)
    except Exception as error:
        path = corpus.keep(corpus.FINDINGS / name, data)
        raise AssertionError(f"python -m tests.fuzz {name} {path}") from error
    assert time.monotonic() - began_s < INPUT_S_MAX, data[:200]


def _most_memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


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


def test_the_corpus_is_small() -> None:
    for name in TARGETS:
        assert sum(map(len, corpus.kept(name))) <= corpus.TARGET_BYTES_MAX
    assert {path.name for path in corpus.FOLDER.iterdir()} <= set(TARGETS)


def test_the_same_seed_makes_the_same_inputs() -> None:
    inputs = [b"abc", b"\0" * 40]
    first = list(mutated(1, inputs, 50, 100))
    assert first == list(mutated(1, inputs, 50, 100))
    assert first != list(mutated(2, inputs, 50, 100))
    assert len(set(first)) > 25
