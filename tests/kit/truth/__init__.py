"""What is true, apart from the pipeline: a record of all that was sent, and comparisons with it.

Nothing here imports pipeline, schemas or sketches, and a test sees to that.

    record.py          what producers sent and what was acknowledged, on disk before it is sent
    in_log.py          what the log holds, read with a plain consumer
    expected.py        every number that must come of it, added up in the plainest way
    differences.py     two sets of numbers side by side: lost, doubled, misplaced
    letters.py         dead letters: of what the log has and must be refused, and of nothing else
    in_clickhouse.py   the numbers that ClickHouse has, over HTTP
    over_web.py        the numbers that the web API answers; asking.py asks for them
    kinds.py           which families count otherwise: once per member, sketched, strict
    once.py            which increments count where a member counts once, by the log's order
    sketched.py        buckets and estimates by the definition of Count-Min, and who must lead
    ledger.py          what strict counters were asked and answered
    strict.py          what they must have answered, by the log's commands; quotas.py: of quotas
    lines.py           files of lines that survive their writer
    checker.py         all of it at once
"""
