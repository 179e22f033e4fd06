"""A simulated world in which the real shards, changelog, checkpoints and take-overs run.

Everything around them is simulated: the log, the group, the changelog with its compaction,
ClickHouse with its max merges, and the moments at which things break. A seed makes the same world
and the same schedule again.
"""
