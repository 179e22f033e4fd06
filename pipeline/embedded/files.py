"""How many files a process of ours may have open."""

import resource


def raise_file_limit() -> int:
    """As many open files as the system lets us have; the number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
