"""A simulation that waits for an agent's decision at each read and write."""

from __future__ import annotations

import math
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ._native import Error, Request
from ._policies import Scheme

#: Destination of each action.
_DESTINATIONS = ("home", "slot")


class _Closed(Exception):
    """Ends the simulation of an episode that is not played to its end."""


class Gym:
    """Environment of the form that gymnasium has: each read and write of a trace is a step.

    `simulate` runs one episode: it is called with a class like :class:`Scheme`, and returns the
    simulation. :func:`gym` makes an environment of a trace. An action is 0 (the blocks stay on, or
    go to, the HDD) or 1 (to the SSD). The reward is minus the sum of the response times, in
    milliseconds, of all requests that have ended since the step before. Times are simulated times,
    so an episode with the same actions has the same rewards.
    """

    #: Names of the figures of an observation.
    FEATURES = ("is_write", "log2_blocks", "cached_share", "free_share", "log2_interval", "log2_uses")
    #: Number of actions.
    ACTIONS = len(_DESTINATIONS)

    def __init__(self, simulate: Callable[[Callable[[int], Scheme]], Any]) -> None:
        self._simulate = simulate
        self._episode: _Episode | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[tuple[float, ...], dict[str, Any]]:
        """Begins an episode, and returns the first observation. The simulation has a seed of its own."""
        self.close()
        self._episode = _Episode(self._simulate)
        observation, _, ended, _, info = self._episode.next()
        if ended:
            raise Error("the trace has no read or write: expected at least one")
        return observation, info

    def step(self, action: int) -> tuple[tuple[float, ...], float, bool, bool, dict[str, Any]]:
        """Sends the agent's decision for the request of the last observation. Returns an
        observation of the next request.

        The other values are the reward, true at the end of the trace, `False`, and a dictionary
        with the `request`; at the end with the `result`, in place of the request. The observation
        at the end describes the last request.
        """
        if self._episode is None:
            raise Error("no episode is under way: expected a call of reset() before step()")
        self._episode.answers.put(_DESTINATIONS[action])
        step = self._episode.next()
        if step[2]:
            self._episode = None
        return step

    def close(self) -> None:
        """Ends the episode that is under way; does nothing without an episode."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def __del__(self) -> None:
        self.close()


class _Episode:
    """A simulation on a thread of its own, in steps with the agent."""

    def __init__(self, simulate: Callable[[Callable[[int], Scheme]], Any]) -> None:
        #: Requests to be decided; then the result, or the exception that ended the simulation.
        self.questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.ended_ms: deque[float] = deque()
        self.uses: dict[int, tuple[int, int]] = {}
        self.steps = 0
        self.observation: tuple[float, ...] = ()

        def run() -> None:
            try:
                self.questions.put(simulate(self.agent))
            except BaseException as exception:  # noqa: BLE001: the agent's thread raises it.
                self.questions.put(exception)

        self.thread = threading.Thread(target=run, name="bimetal-gym", daemon=True)
        self.thread.start()

    def agent(self, slots: int) -> Scheme:
        episode = self

        class Asking(Scheme):
            def place(self, request: Request) -> str:
                episode.questions.put(request)
                answer = episode.answers.get()
                if answer is None:
                    raise _Closed
                return answer

            def finished(self, number: int, response_ns: int) -> None:
                episode.ended_ms.append(response_ns / 1e6)

        return Asking(slots)

    def next(self) -> tuple[tuple[float, ...], float, bool, bool, dict[str, Any]]:
        question = self.questions.get()
        if isinstance(question, BaseException):
            raise question
        reward = -math.fsum(self.ended_ms)
        self.ended_ms.clear()
        if not isinstance(question, Request):
            return self.observation, reward, True, False, {"result": question}
        self.observation = self._observed(question)
        return self.observation, reward, False, False, {"request": question}

    def _observed(self, request: Request) -> tuple[float, ...]:
        uses, last = self.uses.get(request.block, (0, -1))
        interval = self.steps - last if uses else 2**20
        self.uses[request.block] = (uses + 1, self.steps)
        self.steps += 1
        return (
            float(request.op == "write"),
            math.log2(request.blocks),
            request.cached_blocks / request.blocks,
            request.free_slots / request.slots,
            math.log2(interval),
            math.log2(uses + 1),
        )

    def close(self) -> None:
        self.answers.put(None)
        self.thread.join()
