"""Policies that are written in Python."""

from __future__ import annotations

from collections.abc import Iterable


class Eviction:
    """A replacement policy: the order in which blocks leave a cache.

    Subclasses say in `order` which blocks leave first. An object is made for each cache, with the
    number of blocks that it holds. Blocks are numbers. `order` is asked for some blocks at a time, and
    not all of them leave: a block with newer content than the disk's is written back first. After
    `remove`, a block is gone.

    >>> from collections import OrderedDict
    >>> import bimetal
    >>> class Lru(bimetal.Eviction):
    ...     def __init__(self, slots):
    ...         self.blocks = OrderedDict()
    ...     def insert(self, block):
    ...         self.blocks[block] = None
    ...     def touch(self, block):
    ...         self.blocks.move_to_end(block)
    ...     def remove(self, block):
    ...         del self.blocks[block]
    ...     def order(self):
    ...         return self.blocks
    >>> trace = bimetal.Trace.sample().slice(0, 5000)
    >>> lru, own = bimetal.mrc(trace, ["lru", Lru], sizes=[0.1]).results
    >>> own.policy, own.miss_ratio == lru.miss_ratio
    ('Lru', True)
    >>> result = bimetal.simulate(trace, "smart-response", ssd_size="16MiB", eviction=Lru)
    >>> result.options.eviction
    'Lru'
    """

    def __init__(self, slots: int) -> None:
        """Makes the policy of a cache that holds `slots` blocks."""

    def insert(self, block: int) -> None:
        """Notes that `block` came into the cache."""

    def touch(self, block: int) -> None:
        """Notes a use of `block`, which is in the cache."""

    def remove(self, block: int) -> None:
        """Notes that `block` left the cache."""

    def order(self) -> Iterable[int]:
        """Returns blocks in the order in which they shall leave."""
        raise NotImplementedError
