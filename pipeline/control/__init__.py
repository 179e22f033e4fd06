"""Rules and partitions: what operators change in the log, and what must be there to count it."""
