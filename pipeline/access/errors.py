"""Why somebody is not let in, by what a server should answer. No text holds a token or a hash."""

from pipeline.errors import TallyError


class AccessError(TallyError):
    """Base of all refusals of this package."""


class NoTokenError(AccessError):
    """Nobody said who is asking, and somebody must."""

    def __init__(self) -> None:
        super().__init__("a token is needed: send it as Authorization: Bearer TOKEN")


class BadTokenError(AccessError):
    """What was sent is no token, or one that does not hold, or not any more."""


class NotAllowedError(AccessError):
    """The token holds, but not for this."""


class TooFastError(AccessError):
    """The token's rate is used up: the same request may be sent after `retry_after_s` seconds."""

    def __init__(self, name: str, retry_after_s: float) -> None:
        super().__init__(f"{name} asks too often: try again in {retry_after_s:.1f} s")
        self.retry_after_s = retry_after_s
