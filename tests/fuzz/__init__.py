"""Fuzzing of every door: bytes that nobody would send, and what each door promises on them.

A target is a module here with three names: `seeds()` gives inputs that are right or nearly so,
`check(data)` puts one input through the door, and `PROMISE` says in a sentence what it looks for.
`check` returns for any input, good or refused; whatever it raises is a finding. `targets.py` lists
them, `python -m tests.fuzz` runs them, docs/testing.md tells how.
"""
