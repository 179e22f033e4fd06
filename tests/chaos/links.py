"""The way to a server, which tells whether harm was done to anybody on it."""

from tests.kit.proxy import Proxy


class Link(Proxy):
    """A proxy whose harms can be seen to take effect. Thread-safe."""

    def __init__(self, target_port: int) -> None:
        self.ended = 0
        """So many connections it has ended by a cut or a tear."""
        super().__init__(target_port)

    @property
    def connections(self) -> int:
        """So many go through it now to a server that is there."""
        return len(self._pairs)

    @property
    def is_to_tear(self) -> bool:
        """Whether `tear` was asked for, and nothing came yet that could be torn."""
        return self._tears

    def pass_on(self) -> None:
        """End a stall, and nothing else: what is to be delayed or torn is so still."""
        self._loop.call_soon_threadsafe(self._passing.set)

    def _cut(self) -> None:
        self.ended += len(self._pairs)
        super()._cut()

    def _reset_all(self) -> None:
        self.ended += len(self._pairs)
        super()._reset_all()
