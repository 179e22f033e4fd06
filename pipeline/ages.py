"""Ages in words."""


def age(age_ms: int) -> str:
    """An age as people say it: `1.5 s`, `15 min`, `3 h`. Pure."""
    seconds = max(0, age_ms) / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
