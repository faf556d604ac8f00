"""Sweeps over executors and over a Ray cluster have the bytes of a sweep in one process."""

import importlib.util
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import bimetal
import pytest
from conftest import OFFICE

GRID = {
    "traces": [OFFICE],
    "schemes": ["hdd-only", "smart-response"],
    "ssd-size": ["16MiB", "64MiB"],
    "seed": [1, 2],
    "limit": 300,
}


def bytes_of(sweep):
    return [pathlib.Path(sweep[name]).read_bytes() for name in ("results", "table")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return bimetal.sweep(GRID, tmp_path_factory.mktemp("alone") / "results")


def test_threads_and_processes_give_the_bytes_of_one_process(alone, tmp_path):
    spawned = multiprocessing.get_context("spawn")
    for name, make in {
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=spawned),
    }.items():
        seen = []
        with make() as pool:
            progress = lambda done, total: seen.append((done, total))
            first = bimetal.sweep(GRID, tmp_path / name, on=pool, tasks=3, progress=progress)
            again = bimetal.sweep(GRID, tmp_path / name, on=pool)
        assert bytes_of(first) == bytes_of(alone)
        assert (first.run, first.done_before, first.jobs) == (alone.jobs, 0, alone.jobs)
        assert (again.run, again.done_before) == (0, alone.jobs)
        assert seen == [(1, 3), (2, 3), (3, 3)]


class Failing(ThreadPoolExecutor):
    """Loses each task once: before the task has run, or after the task has run."""

    def __init__(self, losses):
        super().__init__(2)
        self.losses, self.most, self.under_way = losses, 0, 0
        self.lock = threading.Lock()

    def submit(self, function, /, *arguments):
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)

        def run():
            try:
                answer = function(*arguments)
                if self.losses > 0:
                    self.losses -= 1
                    raise ConnectionError("the worker is gone")
                return answer
            finally:
                with self.lock:
                    self.under_way -= 1

        return super().submit(run)


def test_lost_tasks_are_begun_again(alone, tmp_path):
    with Failing(losses=2) as pool:
        sweep = bimetal.sweep(GRID, tmp_path / "results", on=pool, tasks=6)
    assert bytes_of(sweep) == bytes_of(alone)
    assert pool.most <= 4, "at most two tasks for each worker are under way"


def test_task_that_is_always_lost_ends_the_sweep(tmp_path):
    with Failing(losses=1000) as pool, pytest.raises(ConnectionError):
        bimetal.sweep(GRID, tmp_path / "results", on=pool, tasks=2)


class Elsewhere:
    """An executor whose machine has another folder."""

    def submit(self, function, /, *arguments):
        future = Future()
        line, *rest = arguments
        at = line.index("--output") + 1
        future.set_result(function([*line[:at], line[at] + "-elsewhere", *line[at + 1 :]], *rest))
        return future


def test_folder_that_is_not_shared_is_refused(tmp_path):
    with pytest.raises(bimetal.Error, match="expected a folder that all machines share"):
        bimetal.sweep(GRID, tmp_path / "results", on=Elsewhere(), tasks=2)


def test_executor_that_forks_is_refused(alone, tmp_path):
    """Regression: the forked processes waited for threads that they do not have."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(bimetal.Error, match="threads are not forked: expected ProcessPoolExecutor"):
            bimetal.sweep(GRID, tmp_path / "results", on=pool, tasks=1)


def test_wrong_executors_and_options_are_refused(tmp_path):
    for options, message in [
        ({"on": "rai"}, "on='rai': expected 'ray', or an executor"),
        ({"on": ThreadPoolExecutor(1), "tasks": 0}, "tasks=0: expected at least 1"),
        ({"on": ThreadPoolExecutor(1), "shard": "1/2"}, "on= makes the shards itself"),
    ]:
        with pytest.raises(bimetal.Error) as refused:
            bimetal.sweep(GRID, tmp_path / "results", **options)
        assert str(refused.value).startswith(message)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_ray_that_is_missing_is_named(tmp_path):
    with pytest.raises(bimetal.Error, match="Ray is not installed: type pip install 'bimetal"):
        bimetal.sweep(GRID, tmp_path / "results", on="ray")
