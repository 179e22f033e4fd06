"""Copies this cluster's cells to another cluster's ClickHouse: `tally exchange`."""
