"""Every kernel does what slower code does as well; that code is the truth here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from clickhouse_cityhash.cityhash import CityHash64
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.native.hashing import SIZE_MAX
from pipeline.native.loading import MODULES, Kernels, kernels
from sketches.hashing import hashes
from sketches.register_table import RegisterTable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def loaded() -> Iterator[None]:
    """Kernels are there for a test, and afterwards as they were."""
    before = kernels.are_loaded
    kernels.load()
    yield
    kernels.are_loaded = before


@given(st.lists(st.text(max_size=SIZE_MAX + 20)))
@settings(deadline=None, print_blob=True)
def test_texts_have_the_hash_that_each_has_by_itself(texts: list[str]) -> None:
    expected = [CityHash64(text.encode()) for text in texts]
    assert hashes(pa.array(texts, pa.string())).tolist() == expected
    assert hashes(pa.array(["before", *texts], pa.string()).slice(1)).tolist() == expected


def test_every_length_has_its_hash() -> None:
    texts = ["é" * (size // 2) + "x" * (size % 2) for size in range(2 * SIZE_MAX)]
    assert hashes(pa.array(texts)).tolist() == [CityHash64(text.encode()) for text in texts]


@pytest.mark.parametrize("seed", range(5))
def test_members_raise_the_registers_that_columns_raise(seed: int) -> None:
    random = np.random.default_rng(seed)
    by_kernel, by_columns = RegisterTable(), RegisterTable()
    for _ in range(8):
        rows = np.unique(random.integers(0, 1 << 39, 40))
        precisions = random.choice(np.array([0, 4, 12, 16], np.uint64), len(rows))
        which = random.integers(0, len(rows), 3000)
        hashed = random.integers(0, 1 << 64, 3000, dtype=np.uint64)
        hashed[:4] = 0, 2**64 - 1, 1, 2**63
        kernels.are_loaded = True
        raised = by_kernel.raise_members(rows, precisions, which, hashed)
        kernels.are_loaded = False
        expected = by_columns.raise_members(rows, precisions, which, hashed)
        assert raised.packed.tolist() == expected.packed.tolist()
        assert len(by_kernel) == len(by_columns)
    assert by_kernel.entries().packed.tolist() == by_columns.entries().packed.tolist()


def test_they_are_loaded_beside_other_work_once() -> None:
    fresh = Kernels()
    assert not fresh.are_loaded
    fresh.load_soon()
    fresh.load_soon()
    fresh.wait(60)
    assert fresh.are_loaded


def test_kernels_that_cannot_be_compiled_are_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pipeline.native.loading.MODULES", (*MODULES, "missing"))
    fresh = Kernels()
    fresh.load_soon()
    fresh.wait(60)
    assert not fresh.are_loaded
    assert "counting goes on without them" in caplog.text
