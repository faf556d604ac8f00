"""Tables of requests in any form, as tables that the native part takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._native import Error, Frame

#: Columns of a table of requests.
_COLUMNS = ("time_ns", "device", "op", "lba", "sectors", "fua", "response_ns")


def table(frame: Any) -> Any:
    """Returns `frame` as an object with `__arrow_c_stream__`.

    >>> import array
    >>> len(table({"lba": array.array("Q", [0, 8]), "sectors": [8, 8]}))
    2
    """
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return Frame(_columns(frame)) if _is_pandas(frame) else frame
        except (BufferError, TypeError, ValueError):
            return frame
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise Error(f"a {type(frame).__name__} is no table: expected a data frame, or a mapping of columns")
    return Frame(_columns(frame))


def _is_pandas(frame: Any) -> bool:
    # pandas makes streams with pyarrow, which may not be installed.
    return type(frame).__module__.split(".")[0] == "pandas"


def _columns(frame: Any) -> dict[str, Any]:
    return {name: _column(frame[name]) for name in _COLUMNS if name in frame}


def _column(values: Any) -> Any:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, (list, tuple)):
        return list(values)
    view = memoryview(values)
    kind = {"B": "u", "H": "u", "I": "u", "L": "u", "Q": "u", "?": "u"}.get(view.format, "i")
    if view.format not in tuple("bBhHiIlLqQ?"):
        return values.tolist() if hasattr(values, "tolist") else list(values)
    return f"{kind}{8 * view.itemsize}", bytes(view)
