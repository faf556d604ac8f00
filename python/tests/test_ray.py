"""A sweep over a Ray cluster of several nodes on this machine, of which one is killed on the way."""

import pathlib
import threading

import bimetal
import pytest
from conftest import OFFICE

ray = pytest.importorskip("ray", reason="Ray is not installed: RAY=1 scripts/test-python installs it")

GRID = {
    "traces": [OFFICE],
    "schemes": ["smart-response", "bcache"],
    "ssd-size": ["16MiB", "32MiB", "64MiB"],
    "seed": [1, 2, 3],
    "limit": 4000,
}


def bytes_of(sweep):
    return [pathlib.Path(sweep[name]).read_bytes() for name in ("results", "table")]


def test_cluster_that_loses_a_node_gives_the_same_bytes(tmp_path):
    from ray.cluster_utils import Cluster

    alone = bimetal.sweep(GRID, tmp_path / "alone")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    other = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        nodes, killed = set(), threading.Event()

        def kill(done, _total):
            if done == 2 and not killed.is_set():
                nodes.update(node["NodeID"] for node in ray.nodes() if node["Alive"])
                cluster.remove_node(other, allow_graceful=False)
                killed.set()

        over_ray = bimetal.sweep(GRID, tmp_path / "ray", on="ray", tasks=9, progress=kill)
        assert killed.is_set() and len(nodes) == 3
        assert sum(node["Alive"] for node in ray.nodes()) == 2
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert bytes_of(over_ray) == bytes_of(alone)
