"""Adjustments: audited corrections, written to the log by people and derived from it by workers."""
