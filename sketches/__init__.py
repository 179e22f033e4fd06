"""Bounded-memory summaries: pure, no I/O, no clock."""
