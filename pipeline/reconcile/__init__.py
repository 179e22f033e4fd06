"""Holds ClickHouse, the ledger and the log against each other: `tally verify`, and the leader."""
