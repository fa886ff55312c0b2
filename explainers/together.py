"""Several samples explained side by side, so that their requests meet in shared batches.

Each sample's explainer runs in a thread of its own, and exactly one thread runs at a time: in turn, each goes on until
it asks for evaluations or is done. When all have, the requests are answered together, and the next round begins. So
the batches depend on the samples alone, never on the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from explainers.batches import Request, answer
from explainers.game import Game, alone

if TYPE_CHECKING:
    import torch

    from explainers.base import Explainer, Explanation


def explain_together(explainer: Explainer, games: Sequence[Game], seed: int = 0) -> list[Explanation]:
    """Explain every sample of each game, the games side by side; the draws are those of ``explainer.explain`` alone.

    Memory grows with the number of games: each has a request waiting.

    Raises:
        ValueError: as ``explainer.explain``; what goes wrong with one game ends all.
    """
    if len(games) < 2:
        return [explainer.explain(game, seed) for game in games]
    found: dict[int, Explanation] = {}

    def work(place: int) -> None:
        found[place] = explainer.explain(games[place], seed)

    table = Table(len(games), work)
    for place, game in enumerate(games):
        game.answerer = table.asker(place)
    try:
        table.serve()
    finally:
        for game in games:
            game.answerer = alone
    return [found[place] for place in range(len(games))]


class Abandoned(BaseException):
    """Ends a thread whose table was closed; no ``except Exception`` on the way may hold it up."""


class Table:
    """Threads that take turns, and whose requests are answered together once all have asked or are done."""

    def __init__(self, size: int, work: Callable[[int], None]) -> None:
        self.work = work
        self.turns = [threading.Semaphore(0) for _ in range(size)]  # one a thread, so that a turn wakes no other
        self.served = threading.Semaphore(0)
        self.closed = False
        self.asked: dict[int, Request] = {}
        self.answers: dict[int, torch.Tensor] = {}
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(place,), daemon=True) for place in range(size)]

    def serve(self) -> None:
        """Run all threads to their end; raise the first error of one of them, or of the black box."""
        for thread in self.threads:
            thread.start()
        going = list(range(len(self.threads)))
        try:
            while going:
                for place in going:
                    self.turns[place].release()
                    self.served.acquire()
                    if self.errors:
                        raise self.errors[0]
                going = sorted(self.asked)
                requests = [self.asked.pop(place) for place in going]
                self.answers = dict(zip(going, answer(requests), strict=True))
        finally:
            self._close()

    def asker(self, place: int) -> Callable[[Request], torch.Tensor]:
        """Return what answers the requests of thread ``place``: it passes the turn on, and waits for its own."""

        def ask(request: Request) -> torch.Tensor:
            self.asked[place] = request
            self.served.release()
            self._await_turn(place)
            return self.answers.pop(place)

        return ask

    def _run(self, place: int) -> None:
        try:
            self._await_turn(place)
            self.work(place)
        except Abandoned:
            return
        except BaseException as error:
            self.errors.append(error)
        self.served.release()

    def _await_turn(self, place: int) -> None:
        self.turns[place].acquire()
        if self.closed:
            raise Abandoned

    def _close(self) -> None:
        self.closed = True
        for turn, thread in zip(self.turns, self.threads, strict=True):
            turn.release()
            thread.join()
