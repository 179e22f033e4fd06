"""Numbers of things, for people: `1 event`, `2,000 events`."""


def amount(number: int, noun: str, then: str = "") -> str:
    """The number with its noun, which is made plural by an s unless there is one of it.

    `then` is the verb that follows, for several: `were` or `are` become `was` or `is`. Pure.
    """
    text = f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
    if not then:
        return text
    return f"{text} {_SINGULAR[then] if number == 1 else then}"


_SINGULAR = {"were": "was", "are": "is", "stay": "stays"}
