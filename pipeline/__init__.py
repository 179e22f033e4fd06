"""Tally: exact, replayable counts of what happens too often for one row."""

__version__ = "0.1.0"
