"""The three ways something goes wrong, by what the caller should do about it.

A fourth, a bug, is any other exception: it crashes the process, which is rebuilt from the log.
"""


class TallyError(Exception):
    """Base of all errors Tally raises on purpose. The text is one line that says what to do."""


class TryAgainError(TallyError):
    """A server is away or busy: the same call may succeed later, nothing was lost."""


class BadInputError(TallyError):
    """This input can never succeed as it is: it is refused, and the text says why."""


class OperatorError(TallyError):
    """Somebody must act (a taken port, a changed migration): retrying cannot help."""


class NothingThereError(OperatorError):
    """What was asked for does not exist, such as a family that nobody ever counted."""


class UncountedFamilyError(NothingThereError):
    """A family that nobody ever counted. Its text names others, which not everybody may know."""

    def __init__(self, family: str, others: str) -> None:
        self.without_others = f"nothing of a family {family!r} was ever counted"
        super().__init__(f"{self.without_others}; {others}")


class ShardRefusedError(OperatorError):
    """A worker will not count a shard on, because its counts would be wrong."""

    def __init__(self, shard: int, reason: str) -> None:
        super().__init__(f"shard {shard}: {reason}")
        self.shard = shard
        self.reason = reason
