"""The choice between speed and a power cut. Apart from the flusher, since the command line shows it
and must not load the log for that.
"""

from enum import StrEnum


class Fsync(StrEnum):
    """When acknowledged records are forced to the disk."""

    SECOND = "second"
    ALWAYS = "always"
