"""The families' file under `tally up`: applied before workers start.

On one machine the file is the operator's word, so it overrules the log, where a worker on its own
would refuse to start.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from pipeline.clock import Clock
from pipeline.local.aside import aside
from pipeline.local.parts import News, Output, Part
from schemas.settings import Settings

PREPARE_TIMEOUT_S = 20.0


def rules_step(
    settings: Settings, clock: Clock, tell: Callable[[News], None]
) -> Callable[[], Awaitable[None]] | None:
    """What applies the file if the log has other rules, and tells so; None without a file.

    Reads the file at once, and raises OperatorError for a mistake in it; the step itself raises
    TallyError.
    """
    if (file := settings.config) is None:
        return None
    # Here and below: without a file `tally up` has no need of these packages.
    from schemas.families import load_families  # noqa: PLC0415

    load_families(file)

    async def apply() -> None:
        from pipeline.control.prepare import prepare  # noqa: PLC0415

        new = await aside(
            partial(prepare, settings, clock, overrule=True, patience_s=PREPARE_TIMEOUT_S)
        )
        if new is not None:
            tell(News(Part("rules", (), file.name, _always), "applied", new.changes))

    return apply


async def _always(_: Output) -> bool:
    return True
