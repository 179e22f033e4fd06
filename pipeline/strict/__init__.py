"""Strict counters: every command is decided once, in log order, and its answer stands.

web: a command with an id ──▶ Kafka `tally.strict`, by the counter's hash      client.py
  └▶ decider, a thread of a worker: reads, decides, in log order               decider.py
      ├▶ what a counter is, and how one command changes it: pure               state.py, windows.py
      ├▶ `tally.strict-changelog`: one record per counter, confirmed           changelog.py
      │    └▶ web: whoever waits for an id in it has the answer                answers.py
      ├▶ commit, lazily: a state says itself through where it has counted
      └▶ about every second: values → ClickHouse, for reads                    values.py
"""
