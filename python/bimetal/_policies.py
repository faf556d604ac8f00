"""Policies and schemes that are written in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ._native import Request


class Eviction:
    """A replacement policy: the order in which blocks leave a cache.

    `order`, which a subclass defines, returns the blocks that leave first. An object is made for
    each cache, with the number of blocks that it holds. Blocks are numbers. `order` is asked for
    some blocks at a time, and not all of them leave: a block with newer content than the disk's is
    written back first. After `remove`, a block is gone.

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


class Scheme:
    """A scheme of your own: for each read and write, the scheme decides whether the blocks go to
    the SSD.

    `base` is the scheme that makes all other decisions: it chooses the blocks that leave, and the
    time at which new content is written back to the HDD. An object is made for each simulation,
    with the number of slots of the SSD. A class may also have `finished(number, response_ns)`,
    which is called when a request has ended, with its number and its response time.

    >>> import bimetal
    >>> class SmallWrites(bimetal.Scheme):
    ...     def place(self, request):
    ...         return "slot" if request.op == "write" and request.blocks <= 8 else "home"
    >>> trace = bimetal.Trace.sample().slice(0, 5000)
    >>> result = bimetal.simulate(trace, SmallWrites, ssd_size="16MiB", set={"mode": "maximized"})
    >>> result.options.director, result.ssd_hit_ratio.write > result.ssd_hit_ratio.read
    ('SmallWrites', True)
    """

    #: Scheme that decides all that `place` does not.
    base = "smart-response"
    #: Method `finished(number, response_ns)` of a subclass that wants to know the response times.
    finished: Callable[[int, int], object] | None = None

    def __init__(self, slots: int) -> None:
        """Makes the scheme of an SSD with `slots` slots for blocks, all of them empty."""

    def place(self, request: Request) -> str | None:
        """Returns the place of a request's blocks.

        `"home"`: the HDD alone; copies of written blocks are dropped, and no read blocks are copied.
        `"slot"`: the SSD; a write leaves the HDD with older content, and a read brings copies in.
        `"both"`: a write goes to both drives. `None`: as the scheme `base` decides. Where no slot is
        free, a write goes to the HDD.
        """
        raise NotImplementedError


class Admission(Scheme):
    """An admission rule: the rule decides which requests may bring blocks into a cache.

    >>> import bimetal
    >>> class SecondUse(bimetal.Admission):
    ...     def __init__(self, slots):
    ...         self.seen = set()
    ...     def admit(self, request):
    ...         known = request.block in self.seen
    ...         self.seen.add(request.block)
    ...         return known
    >>> trace = bimetal.Trace.sample().slice(0, 5000)
    >>> own, every = (
    ...     bimetal.simulate(trace, "bcache", ssd_size="64MiB", admission=rule).devices.ssd.write_bytes
    ...     for rule in (SecondUse, None)
    ... )
    >>> own < every
    True
    """

    def admit(self, request: Request) -> bool:
        """Returns true if the blocks of `request` may enter the cache. The scheme decides about
        admitted blocks.
        """
        raise NotImplementedError

    def place(self, request: Request) -> str | None:
        """Returns `None` for an admitted request, and `"home"` for a refused request."""
        return None if self.admit(request) else "home"
