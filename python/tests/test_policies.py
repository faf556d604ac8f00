"""Replacement policies that are classes of Python."""

from collections import OrderedDict

import bimetal
import pytest


class Lru(bimetal.Eviction):
    def __init__(self, slots):
        self.blocks = OrderedDict()

    def insert(self, block):
        self.blocks[block] = None

    def touch(self, block):
        self.blocks.move_to_end(block)

    def remove(self, block):
        del self.blocks[block]

    def order(self):
        return self.blocks


class Mru(Lru):
    """Offers a block that the cache does not hold, and then all blocks from the last use on."""

    def order(self):
        yield 4_000_000_000
        yield from list(reversed(self.blocks))


def test_lru_in_python_misses_as_the_built_in(office):
    part = office.slice(0, 3000)
    for unit in ("block", "request"):
        ratios = bimetal.mrc(part, ["lru", Lru, Mru], sizes=[0.01, 0.1], unit=unit).results
        misses = {}
        for point in ratios:
            misses.setdefault(point.policy, []).append(point.miss_ratio)
        assert misses["Lru"] == misses["lru"]
        assert misses["Mru"] != misses["lru"]
    # Regression: a class alone came with the points of lru.
    alone = bimetal.mrc(part, [Lru], sizes=[0.01])
    assert [point.policy for point in alone.results] == ["Lru"] and alone.frame().to_dict()["policy"] == ["Lru"]


def test_lru_in_python_simulates_as_the_built_in(office):
    part = office.slice(0, 5000)
    own, built_in, mru = (
        bimetal.simulate(part, "smart-response", ssd_size="16MiB", eviction=policy) for policy in (Lru, None, Mru)
    )
    assert own.response_time_ms.to_dict() == built_in.response_time_ms.to_dict()
    assert own.devices.to_dict() == built_in.devices.to_dict()
    assert mru.ssd_hit_ratio.to_dict() != own.ssd_hit_ratio.to_dict()
    assert own.options.eviction == "Lru" and "eviction" not in built_in.options


def test_exception_of_a_policy_ends_the_command(office):
    class Broken(Lru):
        def order(self):
            raise LookupError("no block")

    with pytest.raises(LookupError, match="no block"):
        bimetal.simulate(office, "smart-response", ssd_size="16MiB", eviction=Broken)
    with pytest.raises(TypeError):
        bimetal.mrc(office, [lambda: None], sizes=[10])


def test_scheme_without_a_policy_refuses_one(office):
    with pytest.raises(bimetal.Error, match="griffin: takes no policy 'Lru' of another program"):
        bimetal.simulate(office, "griffin", eviction=Lru)
