"""NDJSON to the log: a file of any size, checked line by line, sent, and gone on with.

file ──▶ chunks of whole lines ──▶ checked by the decoder ──▶ lines or frames ──▶ settled in order
"""
