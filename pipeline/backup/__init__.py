"""Copies of the embedded data: `tally backup` and `tally restore`. docs/backup.md says why so."""
