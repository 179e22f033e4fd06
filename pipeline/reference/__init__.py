"""The reference in docs/, written from the code: `python -m pipeline.reference --write`.

Each module here makes one page of docs/reference as text. Pure: nothing connects to a server, and
the same code gives the same bytes, so that a test can tell when a page is stale.
"""
