"""The embedded ClickHouse: chDB behind ClickHouse's HTTP interface, in a process of its own.

`server.py` takes requests, `entrance.py` decides whose, `execution.py` runs one, `reply.py` answers
it; `engine.py` alone knows chDB; what is decided from text alone (`request.py`, `statement.py`,
`reading.py`, …) is pure. Nothing else in the pipeline imports from here: it is spoken to over HTTP,
as a real server is.
"""
