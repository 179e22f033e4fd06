"""A load from one process, or from several at once whose figures are added up."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from pipeline.clock import SystemClock
from pipeline.errors import TallyError, TryAgainError
from pipeline.load.figures import Done, Figures
from pipeline.load.running import run_load
from pipeline.load.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

    from pipeline.interrupts import Wishes
    from pipeline.load.running import Order

_POLL_S = 0.2
_END_S = 10.0


def run_loads(
    orders: Sequence[Order], wishes: Wishes, on_figures: Callable[[Figures], None]
) -> Done:
    """Run each order, all at once; one alone in this process. Blocks until all is known.

    Raises what `run_load` raises, and TryAgainError for a process that ended by itself; then the
    others are ended, too.
    """
    if len(orders) == 1:
        return run_load(orders[0], SystemClock(), wishes, on_figures)
    processes = [_Process(order) for order in orders]
    try:
        while not all(process.done for process in processes):
            for process in processes:
                process.pass_on(wishes)
            wait([process.heard for process in processes if not process.done], _POLL_S)
            for process in processes:
                process.listen()
            on_figures(_added_up([process.figures for process in processes]))
    finally:
        for process in processes:
            process.end()
    return _all_done([process.done for process in processes if process.done], orders[0])


def _added_up(several: Sequence[Figures]) -> Figures:
    total = Figures()
    for figures in several:
        total.merge(figures)
    return total


def _all_done(several: Sequence[Done], order: Order) -> Done:
    all_of_them = Done(_added_up([done.figures for done in several]))
    truth = Truth(len(order.mix.regions))
    for done in several:
        all_of_them.places.add(done.places.items())
        if done.sums is not None:
            truth.merge(done.sums)
    all_of_them.sums = truth.sums() if order.wants_truth else None
    return all_of_them


class _Process:
    """Another process that runs an order, and what it has told so far."""

    def __init__(self, order: Order) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.figures = Figures()
        self.done: Done | None = None
        self.heard, told = spawning.Pipe(duplex=False)
        self._wishes = _PassedOn(spawning.Event(), spawning.Event())
        self._process = spawning.Process(
            target=_run, args=(order, told, self._wishes), name="tally-load", daemon=True
        )
        # A Ctrl-C is for this process; another one, which is not ready to ignore it yet, would die.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        told.close()

    def pass_on(self, wishes: Wishes) -> None:
        """Tell it what somebody wants."""
        if wishes.asked:
            self._wishes.ask.set()
        if wishes.hurried:
            self._wishes.hurry.set()

    def listen(self) -> None:
        """Take in what it has told by now. Raises what it raised, TryAgainError if it is gone."""
        while self.done is None and self.heard.poll():
            try:
                news = self.heard.recv()
            except EOFError:
                self._process.join(_END_S)
                raise TryAgainError(
                    f"a process of the load ended by itself ({self._process.exitcode}): try again"
                ) from None
            if isinstance(news, Exception):
                raise news
            if isinstance(news, Done):
                self.done, self.figures = news, news.figures
            else:
                self.figures = news

    def end(self) -> None:
        """End it if it has not. Blocks shortly."""
        self._wishes.ask.set()
        self._wishes.hurry.set()
        self._process.join(_END_S)
        self._process.kill()


class _PassedOn:
    """Wishes from another process; its death is one."""

    def __init__(self, ask: Event, hurry: Event) -> None:
        self.ask = ask
        self.hurry = hurry

    @property
    def asked(self) -> bool:
        return self.ask.is_set() or not _parent_lives()

    @property
    def hurried(self) -> bool:
        return self.hurry.is_set() or not _parent_lives()


def _parent_lives() -> bool:
    parent = multiprocessing.parent_process()
    return parent is None or parent.is_alive()


def _run(order: Order, told: Connection, wishes: _PassedOn) -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        told.send(run_load(order, SystemClock(), wishes, told.send))
    except TallyError as error:
        told.send(error)
    except BrokenPipeError:
        pass  # Nobody is left to tell.
