"""Compares two builds of one log, in one ClickHouse."""
