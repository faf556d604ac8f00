"""Sweeps over executors: processes of this machine, or a Ray cluster.

A task is a shard of the sweep. All tasks write into one folder, which all machines share, and a
task skips the jobs whose results are in the folder. So a task that died is begun again, and only
the jobs that it had under way run a second time.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from . import _native
from ._native import Error

#: Tasks for each worker: enough that all end at about the same time.
_TASKS_PER_WORKER = 4
#: Tasks under way for each worker. The rest waits here, so that a long sweep does not fill the cluster's queue.
_UNDER_WAY_PER_WORKER = 2
#: Times that a task is begun.
_ATTEMPTS = 3
#: The process that has used the native code first. A forked child lacks its threads, and would wait for them.
_used_in: int | None = None
_PROCESSES = 'ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn"))'


class Executor(Protocol):
    """Object with the method `submit` of `concurrent.futures.Executor`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]: ...


def run(
    line: Sequence[str],
    output: str | os.PathLike[str],
    on: str | Executor,
    tasks: int | None,
    progress: Callable[[int, int], object] | None,
) -> int:
    """Runs the sweep of the command line `line` as tasks of an executor. Returns the number of jobs run.

    `progress` is called with the number of tasks done and the number of all tasks.
    """
    executor = _executor(on)
    workers = _workers(executor)
    tasks = _TASKS_PER_WORKER * workers if tasks is None else tasks
    if tasks < 1:
        raise Error(f"tasks={tasks}: expected at least 1")
    waiting = [(number, 1) for number in range(tasks, 0, -1)]
    under_way: dict[Future[Any], tuple[int, int]] = {}
    done = run = 0
    try:
        while waiting or under_way:
            while waiting and len(under_way) < _UNDER_WAY_PER_WORKER * workers:
                number, attempt = waiting.pop()
                command = [*line, "--shard", f"{number}/{tasks}", "--jobs", "1"]
                under_way[executor.submit(_task, command, os.getcwd(), _process())] = (number, attempt)
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                number, attempt = under_way.pop(future)
                exception = future.exception()
                if isinstance(exception, Error) or (exception is not None and attempt == _ATTEMPTS):
                    raise exception
                if exception is not None:
                    waiting.append((number, attempt + 1))
                    continue
                if not any(pathlib.Path(output, "plans").glob(f"*-{number}-of-{tasks}.json")):
                    raise Error(f"{os.fspath(output)}: has no result of task {number}: expected a folder that all machines share")
                done, run = done + 1, run + future.result()["run"]
                if progress is not None:
                    progress(done, tasks)
    finally:
        for future in under_way:
            future.cancel()
    return run


def _task(line: list[str], folder: str, asked_by: tuple[str, int]) -> dict[str, Any]:
    """Runs a shard where the executor wants it, and returns its numbers of jobs."""
    if not is_first_user():
        raise Error(f"the executor forks this process, and threads are not forked: expected {_PROCESSES}")
    if _process() != asked_by and os.getcwd() != folder:
        # A grid names its traces from the working directory of the process that asked.
        os.chdir(folder)
    return json.loads(_native.document(line, [])[0])


def is_first_user() -> bool:
    """Notes that this process uses the native code. Returns False for a child forked after such a use."""
    global _used_in
    _used_in = _used_in or os.getpid()
    return _used_in == os.getpid()


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def _workers(executor: Executor) -> int:
    known = getattr(executor, "workers", None) or getattr(executor, "_max_workers", None)
    return known or os.cpu_count() or 1


def _executor(on: str | Executor) -> Executor:
    if on == "ray":
        return _Ray()
    if not hasattr(on, "submit"):
        raise Error(f"on={on!r}: expected 'ray', or an executor like {_PROCESSES}")
    return on  # type: ignore[return-value]


class _Ray:
    """The Ray cluster that this process is connected to, as an executor."""

    def __init__(self) -> None:
        try:
            import ray
        except ImportError:
            raise Error("on='ray': Ray is not installed: type pip install 'bimetal[ray]'") from None
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        # Ray itself begins a task again when its node or its process is gone.
        self._remote = ray.remote(num_cpus=1, max_retries=_ATTEMPTS, scheduling_strategy="SPREAD")(_task)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, _function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        return self._remote.remote(*arguments).future()
