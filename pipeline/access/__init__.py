"""Who may do what: tokens and JWTs to grants, grants to rights, and how often each may ask.

`access.py` puts it together; `grant.py` and `buckets.py` are pure. Nothing here knows HTTP.
"""
