"""Bytes to requests and answers to bytes. Records are never copied through these codecs."""
