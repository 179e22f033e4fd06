"""The pure parts of the embedded log, and those that need a folder only."""
