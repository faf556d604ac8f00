"""Interrupts, threads, errors, and the program inside the wheel."""

import array
import copy
import doctest
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import bimetal
import pytest
from conftest import OFFICE, REPOSITORY

#: Requests of a trace that no machine simulates within a blink.
MANY = 1_000_000


@pytest.fixture(scope="module")
def long_trace():
    columns = {
        "time_ns": array.array("Q", range(0, MANY * 100_000, 100_000)),
        "lba": array.array("Q", (at * 7919 % 4_000_000 * 8 for at in range(MANY))),
        "op": ["write", "read"] * (MANY // 2),
        "sectors": array.array("I", [8]) * MANY,
    }
    return bimetal.Trace.from_frame(columns, name="long")


def interrupt_after(seconds):
    # A shell lets the programs that it starts in the background ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize("command", ["simulate", "compare", "plan"])
def test_interrupt_ends_a_command_at_once(long_trace, command):
    run = {
        "simulate": lambda: bimetal.simulate(long_trace, "griffin", replay="closed:8"),
        "compare": lambda: bimetal.compare(long_trace),
        "plan": lambda: bimetal.plan(long_trace, latency="p99<1ms"),
    }[command]
    began = time.monotonic()
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - began < 2.5


def test_other_threads_run_during_a_simulation(long_trace):
    steps = []
    stop = threading.Event()

    def count():
        while not stop.wait(0.005):
            steps.append(time.monotonic())

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    bimetal.simulate(long_trace.slice(0, 100_000), "smart-response", ssd_size="1GiB")
    took = time.monotonic() - began
    stop.set()
    thread.join()
    assert len(steps) > took / 0.005 / 10


def test_progress_is_told_and_may_stop_the_run(long_trace):
    class Enough(Exception):
        pass

    seen = []

    def progress(done, total):
        seen.append((done, total))
        raise Enough

    with pytest.raises(Enough):
        bimetal.simulate(long_trace, "griffin", progress=progress)
    assert 0 < seen[0][0] < seen[0][1] == len(long_trace)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "grifin"}, "unknown scheme 'grifin': did you mean 'griffin'?"),
        ({"scheme": "griffin", "ssd_size": "32"}, "invalid value '32' for '--ssd-size <SIZE>': 32 without a unit"),
        ({"scheme": "griffin", "set": {"timeout": "long"}}, "griffin: timeout=long"),
        ({"scheme": "griffin", "sede": 1}, "unexpected argument '--sede' found"),
        ({}, "the following required arguments were not provided"),
    ],
)
def test_wrong_options_raise_the_message_of_the_program(office, options, message):
    with pytest.raises(bimetal.Error) as refused:
        bimetal.simulate(office, **options)
    assert str(refused.value).startswith(message)


def test_results_travel_between_processes(office):
    result = bimetal.simulate(office.slice(0, 500), "hdd-only")
    again = pickle.loads(pickle.dumps(result))
    assert again.to_json() == result.to_json() and again.scheme == copy.deepcopy(result).scheme == "hdd-only"


def test_program_of_the_wheel_runs(program):
    assert program("--version").stdout.split()[0] == "bimetal"
    wrong = program("simulate", "nowhere.csv", "--scheme", "griffin")
    assert (wrong.returncode, wrong.stdout) == (1, "") and wrong.stderr.startswith("error: nowhere.csv")
    assert program("no-command").returncode == 2


def test_interrupt_ends_the_program(tmp_path):
    program = pathlib.Path(sys.executable).parent / "bimetal"
    with subprocess.Popen([program, "fault", "--seeds", "1000000"], stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT


@pytest.mark.parametrize("name", ["python/bimetal/_native.pyi", "docs/python.md"])
def test_examples_of_a_text_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(REPOSITORY / name), module_relative=False, optionflags=doctest.ELLIPSIS,
        globs={"OFFICE": str(OFFICE)},
    )
    assert tried > 0 and failed == 0


@pytest.mark.parametrize("name", ["bimetal", "bimetal._options", "bimetal._results", "bimetal._frames", "bimetal._policies"])
def test_examples_of_a_module_run(name):
    __import__(name)
    failed, tried = doctest.testmod(sys.modules[name], optionflags=doctest.ELLIPSIS)
    assert tried > 0 and failed == 0
