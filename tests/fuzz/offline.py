"""Stands where servers would be asked, and says that none is there: the web's own part is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pipeline.web.services import Services


class Offline:
    """Whatever is asked of it raises the same error, at once."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def fails(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error

    def __getattr__(self, _name: str) -> Any:
        return self.fails

    def stand_in(self, services: Services) -> None:
        """In the place of all that reaches servers."""
        for part in (services, services.flushed, services.counting, services.timely):
            setattr(part, "asking" if part is services else "_asking", self)
        for name in ("producer", "strict", "_flushing", "status"):
            setattr(services, name, self.fails if name == "producer" else self)
        services.counting._flushing = self  # type: ignore[assignment]  # a stand-in
