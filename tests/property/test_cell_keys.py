"""Keys of cells in columns are what they are one by one."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cell_keys import WINDOW_MS, CellKey, key_texts, parse_keys

thorough = settings(max_examples=150, deadline=None, print_blob=True)

# Blanks and digits most of all: they stand between the parts of a key.
texts = st.text(st.sampled_from(" 0123:aé日𝄞") | st.characters(exclude_categories=["Cs"]))
windows_ms = st.integers(0, 10**8).map(lambda number: number * WINDOW_MS)
keys = st.lists(st.builds(CellKey, texts, texts, windows_ms), max_size=40)


@thorough
@given(keys)
def test_a_column_of_keys_is_parsed_to_what_they_were_made_of(cells: list[CellKey]) -> None:
    found = parse_keys([cell.text() for cell in cells])
    columns = (found.counters.to_pylist(), found.regions.to_pylist(), found.windows_ms.tolist())
    assert list(zip(*columns, strict=True)) == cells
    assert found.counters.type == found.regions.type == pa.string()


@thorough
@given(keys)
def test_a_column_of_keys_has_the_texts_of_its_cells(cells: list[CellKey]) -> None:
    counters = pa.array([cell.counter for cell in cells], pa.string())
    regions = pa.array([cell.region for cell in cells], pa.string())
    starts_ms = np.array([cell.window_ms for cell in cells], np.int64)
    made = key_texts(counters, regions, starts_ms).to_pylist()
    assert made == [cell.text() for cell in cells]
