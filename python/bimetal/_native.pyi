"""Types of the native part. `Trace`, `Frame` and `Error` are public names of `bimetal`."""

import os
from collections.abc import Callable, Sequence
from typing import Any

__version__: str

class Error(ValueError):
    """Input or configuration that is wrong, in the program's words.

    >>> import bimetal
    >>> try:
    ...     bimetal.simulate(bimetal.Trace.sample(), "grifin")
    ... except bimetal.Error as error:
    ...     print(str(error).split(" Known")[0])
    unknown scheme 'grifin': did you mean 'griffin'?

    """

class Trace:
    """A trace of block I/O whose requests are in memory.

    `path` is a file in any format that the program reads, compressed or not; `bimetal formats`
    lists them. The options are those of the command line. `progress` is called with the number of
    bytes read and the number of all bytes.

    >>> import bimetal
    >>> trace = bimetal.Trace.sample()
    >>> len(trace), trace.format, trace.devices
    (53806, 'bin', [0])

    """

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        event: str | None = None,
        device: int | None = None,
        limit: int | None = None,
        skip_bad_lines: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> Trace: ...
    @staticmethod
    def sample() -> Trace:
        """Returns the sample trace inside the package: four minutes of a small server."""

    @staticmethod
    def from_frame(frame: Any, name: str = "frame", event: str | None = None) -> Trace:
        """Makes a trace of a data frame (polars, pandas, pyarrow, DuckDB), or of a mapping of columns.

        `event` is `queue` for requests as a file system issues them, which a simulation merges as Linux
        does, or `issue` for requests to the drive. A frame does not tell; a trace as the frame does.

        `lba` and `sectors` are sectors of 512 bytes. `time_ns`, `device`, `op` (`read`, `write`,
        `flush`, `discard`, `write-zeroes`; a read without it), `fua` and `response_ns` may be missing.
        Requests are sorted by time, and the first arrives at time zero.

        >>> import bimetal
        >>> columns = {"time_ns": [0, 500], "op": ["read", "write"], "lba": [0, 64], "sectors": [8, 8]}
        >>> bimetal.Trace.from_frame(columns)
        <bimetal.Trace: frame (csv), 2 requests>

        """

    def slice(self, start: int = 0, stop: int | None = None) -> Trace:
        """Returns requests `start` to `stop` (exclusive). The first request of the part arrives at
        time zero.

        >>> import bimetal
        >>> len(bimetal.Trace.sample().slice(100, 600))
        500

        """

    def device(self, number: int) -> Trace:
        """Returns the requests of one device. The first request of the part arrives at time zero.
        """

    def frame(self) -> Frame:
        """Returns the requests as a table. The table uses the buffers of the trace: nothing is
        copied.

        >>> import bimetal
        >>> bimetal.Trace.sample().frame().columns
        ['time_ns', 'device', 'op', 'lba', 'sectors', 'fua', 'response_ns']

        """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def has_times(self) -> bool: ...
    @property
    def capacity_bytes(self) -> int | None:
        """Size of the device that was recorded, if the trace contains it."""

    @property
    def skipped_lines(self) -> int: ...
    @property
    def notes(self) -> list[str]:
        """Assumptions that the reader made about the trace, a sentence each."""

    @property
    def devices(self) -> list[int]:
        """Numbers of the devices, sorted."""

    @property
    def arguments(self) -> list[str]:
        """Options with which a command line reads these requests."""

class Frame:
    """A table in columns, which polars, pandas, pyarrow and DuckDB take without a copy.

    >>> import bimetal
    >>> bimetal.Frame({"name": ["a", "b"], "share": [0.5, None]}).to_dict()
    {'name': ['a', 'b'], 'share': [0.5, None]}

    """

    def __new__(cls, columns: dict[str, list[Any] | tuple[str, bytes]]) -> Frame: ...
    @property
    def columns(self) -> list[str]: ...
    def to_dict(self) -> dict[str, list[Any]]:
        """Returns a list for each column."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __len__(self) -> int: ...

class Request:
    """A read or write that a cache is about to serve, with the state of the cache."""

    @property
    def number(self) -> int:
        """Number of the request to the volume, from 0."""

    @property
    def time_ns(self) -> int:
        """Time of the simulation, in nanoseconds."""

    @property
    def op(self) -> str:
        """`read` or `write`."""

    @property
    def lba(self) -> int:
        """First sector of 512 bytes."""

    @property
    def sectors(self) -> int: ...
    @property
    def block(self) -> int:
        """First block that the request touches. Blocks have 4 KiB, or the size of `block=`."""

    @property
    def blocks(self) -> int: ...
    @property
    def cached_blocks(self) -> int:
        """Number of the request's blocks that have a slot on the SSD."""

    @property
    def dirty_blocks(self) -> int:
        """Number of the request's blocks whose newest content is only on the SSD."""

    @property
    def free_slots(self) -> int:
        """Number of slots that can be written at once."""

    @property
    def slots(self) -> int: ...
    @property
    def ssd_queue(self) -> int:
        """Number of operations under way on the SSD."""

    @property
    def hdd_queue(self) -> int:
        """Number of operations under way on the HDD."""

def document(
    arguments: Sequence[str],
    traces: Sequence[Trace],
    progress: Callable[[int, int], object] | None = None,
    policies: Sequence[tuple[str, Callable[[int], object]]] = (),
    director: tuple[str, Callable[[int], object]] | None = None,
) -> tuple[str, str | None]: ...
def main(arguments: Sequence[str]) -> int: ...
