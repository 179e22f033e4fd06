"""Which builds answers come from, as conditions on a table's `build`.

Counts are summed over all clusters whose cells are here: this cluster's live build and, for every
other one that exchanges cells with it, the last build it has sent whole. What is about this
cluster's own counting, such as positions, trends and dead letters, is read of its live build alone.
"""

OWN = "build = (SELECT build FROM tally.live_builds WHERE cluster = '')"
"""The live build of this cluster."""

ALL = "build IN (SELECT build FROM tally.live_builds)"
"""The live builds of all clusters."""
