"""Every metric of Tally, by the process that it is about. The one place where a name is given.

Nothing is imported here: the log's process shall not load what reasons of dead letters need. All
of them together are in `pipeline.metrics.definitions.all`.
"""
