"""Cells that a ClickHouse cluster spreads over its servers are not exchanged."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pipeline.errors import OperatorError
from pipeline.exchange.exchange import Exchange
from pipeline.exchange.side import Side
from schemas.addresses import ClickHouseAddress


class Answering(Side):
    """A side with all tables, of one engine; None if it has none of that name."""

    def __init__(self, engine: str | None, option: str) -> None:
        super().__init__(ClickHouseAddress("http://ch.example:8123"), option)
        self.engine = engine

    def check_migrated(self) -> None:
        pass

    def rows(self, query: str, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        assert "system.tables" in query
        assert not parameters
        return [] if self.engine is None else [(self.engine,)]


@pytest.mark.parametrize(
    ("here", "there", "named"),
    [
        ("AggregatingMergeTree", "Distributed", "--to"),
        ("Distributed", "AggregatingMergeTree", "TALLY_CLICKHOUSE"),
    ],
)
def test_a_server_of_a_cluster_is_refused_at_either_side(here: str, there: str, named: str) -> None:
    passes = Exchange(Answering(here, "TALLY_CLICKHOUSE"), Answering(there, "--to"), 0)
    with pytest.raises(OperatorError, match=f"one of a cluster .* set {named} to a ClickHouse"):
        passes.run(check=True)


def test_one_that_keeps_its_cells_itself_is_taken() -> None:
    Answering("AggregatingMergeTree", "--to").check_one_server()
    Answering(None, "--to").check_one_server()
