"""The shard plan: what producers report, what the leader decides, what producers follow."""
