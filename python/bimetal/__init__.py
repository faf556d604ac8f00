"""What will an SSD and an HDD, combined into one device, do for this workload?

Every function computes what the command of the same name computes, and its result has the same
figures. A trace is decoded once and kept in memory:

>>> import bimetal
>>> trace = bimetal.Trace.sample()
>>> result = bimetal.simulate(trace, "smart-response", ssd_size="64MiB")
>>> result.ssd_hit_ratio.read > 0.1
True
>>> result.response_time_ms.read.p99 > result.response_time_ms.read.p50
True
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from . import _cluster, _native
from ._gym import Gym
from ._native import Error, Frame, Request, Trace, __version__
from ._options import arguments as _arguments
from ._policies import Admission, Eviction, Scheme
from ._results import (
    Catalog,
    Comparison,
    Document,
    MissRatios,
    Plan,
    Record,
    Simulation,
    Sweep,
    frame_of_catalog,
    frame_of_csv,
    frame_of_records,
)


__all__ = [
    "Admission",
    "Catalog",
    "Comparison",
    "Document",
    "Error",
    "Eviction",
    "Frame",
    "Gym",
    "MissRatios",
    "Plan",
    "Record",
    "Request",
    "Scheme",
    "Simulation",
    "Sweep",
    "Trace",
    "__version__",
    "analyze",
    "catalog",
    "compare",
    "gym",
    "mrc",
    "plan",
    "profiles",
    "schemes",
    "simulate",
    "sweep",
]

_Path = Union[str, "os.PathLike[str]"]
_Size = Union[str, int, float]
_Progress = Callable[[int, int], object]
_Values = Union[str, Sequence[str]]
_AnyTrace = Union[Trace, _Path]


def simulate(
    trace: _AnyTrace,
    scheme: str | type[Scheme] | None = None,
    *,
    ssd: _Path | None = None,
    hdd: _Path | None = None,
    ssd_size: _Size | None = None,
    hdd_size: _Size | None = None,
    set: Mapping[str, object] | None = None,
    seed: int | None = None,
    replay: str | None = None,
    eviction: type[Eviction] | None = None,
    admission: type[Admission] | None = None,
    progress: _Progress | None = None,
    **options: object,
) -> Simulation:
    """Simulates one scheme over a trace: `bimetal simulate`.

    `ssd` and `hdd` are built-in profiles or TOML files. A size is a text (`"32GiB"`, `"20%"`),
    bytes, or a float: a share of the footprint. `set` has settings: parameters of schemes, and
    figures of drives, with their values. Any other option of the command is a keyword, too:
    `warmup=0.3`, `compact=True`, `member={"log": "..."}`, `config="tree.toml"`. `progress` is
    called with the number of requests done and the number of all requests.

    `scheme` may be a class like :class:`Scheme`. `eviction` is a class that chooses the blocks to evict,
    in place of the scheme's policy (smart-response, dataplex). `admission` is a class that chooses the
    requests whose blocks may enter (smart-response, dataplex, smq, bcache). With a class as
    a scheme or an admission rule, the trace is played once, so the lifetime of the SSD is that of one
    pass.

    >>> import bimetal
    >>> trace = bimetal.Trace.sample()
    >>> result = bimetal.simulate(trace, "smart-response", ssd_size=0.1, set={"mode": "maximized"})
    >>> result.scheme, result.settings.mode
    ('smart-response', 'maximized')
    """
    director = admission
    if isinstance(scheme, type):
        if admission is not None:
            raise Error(f"{scheme.__name__}: a scheme in Python admits blocks itself: leave admission= out")
        scheme, director = scheme.base, scheme
    own = {"scheme": scheme, "ssd": ssd, "hdd": hdd, "ssd_size": ssd_size, "hdd_size": hdd_size, "set": set}
    policies = [] if eviction is None else [eviction]
    text, _ = _run("simulate", [trace], {**own, "seed": seed, "replay": replay, **options}, progress, policies, director)
    return Simulation(text)


def gym(trace: _AnyTrace, scheme: str = Scheme.base, **options: Any) -> Gym:
    """Makes an environment in which an agent decides, for each read and write, whether its blocks
    go to the SSD.

    The environment has `reset` and `step`, as environments of gymnasium have. `scheme` makes all
    decisions that the agent does not make, and options are the options of :func:`simulate`.

    >>> import bimetal
    >>> env = bimetal.gym(bimetal.Trace.sample().slice(0, 200), ssd_size="16MiB", set={"mode": "maximized"})
    >>> observation, info = env.reset()
    >>> info["request"].op, dict(zip(env.FEATURES, observation))["is_write"]
    ('read', 0.0)
    >>> ended, total = False, 0.0
    >>> while not ended:
    ...     observation, reward, ended, _, info = env.step(1)
    ...     total += reward
    >>> total < 0, info["result"].scheme
    (True, 'smart-response')
    """
    read = trace if isinstance(trace, Trace) else Trace(trace)

    def episode(director: Callable[[int], Scheme]) -> Simulation:
        text, _ = _run("simulate", [read], {"scheme": scheme, **options}, None, director=director)
        return Simulation(text)

    return Gym(episode)


def compare(
    trace: _AnyTrace | None = None,
    schemes: _Values | None = None,
    *,
    progress: _Progress | None = None,
    **options: object,
) -> Comparison:
    """Simulates several schemes over a trace, side by side: `bimetal compare`.

    The table has the columns of `bimetal compare --csv`. Without a trace, the embedded sample is
    played. Options are the options of :func:`simulate`.

    >>> import bimetal
    >>> table = bimetal.compare(schemes=["hdd-only", "smart-response"], ssd_size="64MiB")
    >>> table.frame().to_dict()["scheme"]
    ['hdd-only', 'smart-response']
    """
    traces = [Trace.sample()] if trace is None else [trace]
    text, table = _run("compare", traces, {"schemes": schemes, **options}, progress)
    return Comparison(text, frame_of_csv(table))


def mrc(
    trace: _AnyTrace,
    policies: str | Sequence[str | type[Eviction]] = "lru",
    *,
    sizes: Sequence[str | int | float] | str | None = None,
    unit: str | None = None,
    sample: float | None = None,
    seed: int | None = None,
    block: str | None = None,
) -> MissRatios:
    """Measures miss ratios of replacement policies: `bimetal mrc`.

    A policy is a name, or a class like :class:`Eviction`; points of classes come last. A size is a
    number of objects, a share of the distinct objects (`0.1`, `"10%"`) or a text with a unit
    (`"64MiB"`). `sample` is the share of the objects that is examined, and `seed` chooses these
    objects.

    >>> import bimetal
    >>> ratios = bimetal.mrc(bimetal.Trace.sample(), ["lru", "arc"], sizes=[0.01, 0.1])
    >>> [point.policy for point in ratios.results]
    ['lru', 'lru', 'arc', 'arc']
    """
    if sizes is not None and not isinstance(sizes, str):
        sizes = [f"{size * 100:.10g}%" if isinstance(size, float) else size for size in sizes]
    listed = policies.split(",") if isinstance(policies, str) else list(policies)
    names = [policy for policy in listed if isinstance(policy, str)]
    classes = [policy for policy in listed if not isinstance(policy, str)]
    own = {"policies": names or "lru", "sizes": sizes, "unit": unit, "sample": sample, "seed": seed, "block": block}
    text, _ = _run("mrc", [trace], own, None, classes)
    document = json.loads(text)
    if classes and not names:
        # The command has one policy of its own at least.
        document["results"] = [point for point in document["results"] if point["policy"] != "lru"]
        text = json.dumps(document)
    return MissRatios(text, frame_of_records(document["results"]))


def analyze(trace: _AnyTrace, *, block: str | None = None, files: _Path | None = None) -> Document:
    """Returns the figures of a workload: `bimetal analyze`.

    >>> import bimetal
    >>> bimetal.analyze(bimetal.Trace.sample()).requests
    53806
    """
    return Document(_run("analyze", [trace], {"block": block, "files": files}, None)[0])


def plan(
    traces: _AnyTrace | Sequence[_AnyTrace] = (),
    *,
    latency: _Values | None = None,
    lifetime: str | None = None,
    max_cost: float | None = None,
    catalog: _Path | None = None,
    schemes: _Values | None = None,
    progress: _Progress | None = None,
    **options: object,
) -> Plan:
    """Finds the cheapest SSD and scheme that keep budgets: `bimetal plan`.

    Several traces are played at the same time. `best` is `None` if no option keeps the budgets. With
    `fleet=FOLDER`, the folder of a sweep over a fleet of volumes, there are no traces; the result has
    the option of each volume.

    >>> import bimetal
    >>> plan = bimetal.plan(bimetal.Trace.sample().slice(0, 2000), latency="p99<1s", schemes="hdd-only")
    >>> plan.best.scheme
    'hdd-only'
    """
    several = [traces] if isinstance(traces, (Trace, str, os.PathLike)) else list(traces)
    own = {"latency": latency, "lifetime": lifetime, "max_cost": max_cost, "catalog": catalog, "schemes": schemes}
    return Plan(_run("plan", several, {**own, **options}, progress)[0])


def sweep(
    grid: Mapping[str, object] | _Path,
    output: _Path,
    *,
    shard: str | None = None,
    jobs: int | None = None,
    retry: bool = False,
    on: str | _cluster.Executor | None = None,
    tasks: int | None = None,
    progress: _Progress | None = None,
) -> Sweep:
    """Runs every combination of a grid, and keeps the results in a folder: `bimetal sweep`.

    The grid is a TOML file, or a mapping with its keys; a mapping is written to a file beside
    the folder, with `.toml` behind its name. A job whose result is in the folder is not run again.
    `progress` is called with the number of jobs done and the number of all jobs.

    `on` runs the jobs elsewhere, as tasks with one core each: `"ray"` is a Ray cluster, and an executor
    like `ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn"))` of `concurrent.futures`
    its workers. All machines see the grid, its traces
    and the folder under the same paths. `tasks` is the number of tasks, by default four for each worker.
    With `on`, `progress` counts tasks. A task whose worker dies is begun again, on another worker.
    """
    if on is not None and (shard is not None or jobs is not None):
        raise Error("on= makes the shards itself, with one job at a time: leave shard= and jobs= out")
    if isinstance(grid, Mapping):
        text = _toml(grid)
        grid = pathlib.Path(os.fspath(output).rstrip("/") + ".toml")
        grid.parent.mkdir(parents=True, exist_ok=True)
        grid.write_text(text, encoding="utf-8")
    options = {"output": output, "shard": shard, "jobs": jobs, "retry": retry}
    line = ["sweep", os.fspath(grid), *_arguments(options)]
    if on is not None:
        run = _cluster.run(line, output, on, tasks, progress)
        _cluster.is_first_user()
        # All jobs are done: the last call writes the plan of the whole grid, and the tables.
        answer = json.loads(_native.document(["sweep", os.fspath(grid), *_arguments({"output": output})], [])[0])
        return Sweep({**answer, "run": run, "done_before": answer["jobs"] - run})
    _cluster.is_first_user()
    return Sweep(json.loads(_native.document(line, [], progress)[0]))


def catalog(name: str | None = None) -> Catalog:
    """Returns drives and cloud volumes for sale: `bimetal catalog show`.

    `name` is a drive, a class of drives, or a part of a drive's name.

    >>> import bimetal
    >>> bimetal.catalog("crucial-t500").frame().to_dict()["tbw_tb"]
    [300.0, 600.0, 1200.0, 2400.0]
    """
    text = _native.document(["catalog", "show", *_name(name)], [])[0]
    return Catalog(text, frame_of_catalog(json.loads(text)["catalog"]))


def schemes(name: str | None = None) -> list[Record]:
    """Returns the schemes with their parameters and promises: `bimetal schemes`.

    >>> import bimetal
    >>> bimetal.schemes("griffin")[0].parameters[0].name
    'timeout'
    """
    return Document(_native.document(["schemes", *_name(name)], [])[0]).schemes


def profiles(name: str | None = None) -> list[Record]:
    """Returns the built-in drives, or every figure of one drive: `bimetal profiles`.

    >>> import bimetal
    >>> len(bimetal.profiles()) > 5
    True
    """
    return Document(_native.document(["profiles", *_name(name)], [])[0]).profiles


def _run(
    command: str,
    traces: Sequence[_AnyTrace],
    options: Mapping[str, Any],
    progress: _Progress | None,
    policies: Sequence[type[Eviction]] = (),
    director: Callable[[int], Scheme] | None = None,
) -> tuple[str, Any]:
    read = [trace if isinstance(trace, Trace) else Trace(trace) for trace in traces]
    own = list(dict.fromkeys(tuple(trace.arguments) for trace in read))
    if len(own) > 1:
        raise Error("the traces were read with different options: expected equal options")
    # A name that begins with a dash would be an option.
    names = [f"./{trace.name}" if trace.name.startswith("-") else trace.name for trace in read]
    line = [command, *names, *(own[0] if own else []), *_arguments(options), "--json"]
    named = [(policy.__name__, policy) for policy in policies]
    _cluster.is_first_user()
    return _native.document(line, read, progress, named, director and (director.__name__, director))


def _name(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _toml(grid: Mapping[str, object]) -> str:
    """Returns a grid in TOML: plain keys, then the table of settings.

    >>> print(_toml({"schemes": ["a"], "ssd_size": "10%", "set": {"griffin.timeout": ["60s"]}}), end="")
    "schemes" = ["a"]
    "ssd_size" = "10%"
    [set]
    "griffin.timeout" = ["60s"]
    """
    settings = grid.get("set", {})
    if not isinstance(settings, Mapping):
        raise Error("the key 'set' of a grid: expected a mapping of settings")
    plain = [f"{json.dumps(key, ensure_ascii=False)} = {_toml_value(value)}\n" for key, value in grid.items() if key != "set"]
    of_set = [f"{json.dumps(key, ensure_ascii=False)} = {_toml_value(value)}\n" for key, value in settings.items()]
    return "".join([*plain, "[set]\n", *of_set] if of_set else plain)


def _toml_value(value: object) -> str:
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, ensure_ascii=False)
