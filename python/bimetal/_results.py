"""Results of the commands: documents whose keys are attributes, and tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ._native import Frame


class Record(Mapping[str, Any]):
    """Object of a JSON document: each key is an attribute, and an item.

    >>> record = Record({"response_time_ms": {"read": {"p99": 1.5}}, "runs": [{"scheme": "griffin"}]})
    >>> record.response_time_ms.read.p99
    1.5
    >>> record["runs"][0].scheme
    'griffin'
    """

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _shown(self._values[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python's own names, also while a copy is made.
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self._values)
            raise AttributeError(f"no figure '{name}': expected one of {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._values)})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the object as a dictionary."""
        return self._values


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value


class Document(Record):
    """JSON document of a command. `schema` is the document's first key."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        super().__init__(json.loads(text))
        self._text = text

    def to_json(self) -> str:
        """Returns the text that the program prints with `--json`."""
        return self._text


class Simulation(Document):
    """Result of one simulation. The figures of the run are attributes of the result, too."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        run = self._values["runs"][0]
        return super().__getitem__(key) if key in self._values else _shown(run[key])

    def __repr__(self) -> str:
        run = self._values["runs"][0]
        times = run["response_time_ms"]["all"]
        return f"<bimetal.Simulation: {run['scheme']}, mean {times['mean']} ms, p99 {times['p99']} ms>"

    def latency(self) -> Frame:
        """Returns the response times over time: `start_s`, `requests`, `mean_ms`, `p99_ms`."""
        series = self._values["runs"][0]["series"]["latency"]
        starts = [series["start_s"] + at * series["bucket_s"] for at in range(len(series["requests"]))]
        return Frame({"start_s": starts, **{name: series[name] for name in ("requests", "mean_ms", "p99_ms")}})


class Table(Document):
    """Document that is also a table, which polars, pandas, pyarrow and DuckDB take."""

    __slots__ = ("_frame",)

    def __init__(self, text: str, frame: Frame) -> None:
        super().__init__(text)
        self._frame = frame

    def frame(self) -> Frame:
        """Returns the table."""
        return self._frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


class Comparison(Table):
    """Result of `compare`: a row for each run."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<bimetal.Comparison: {', '.join(dict.fromkeys(run['scheme'] for run in self._values['runs']))}>"


class MissRatios(Table):
    """Result of `mrc`: a row for each policy and size."""

    __slots__ = ()


class Plan(Document):
    """Result of `plan`: the cheapest option that keeps the budgets in `best`, or `None`."""

    __slots__ = ()


class Catalog(Table):
    """Drives and cloud volumes for sale: a row for each size, with its latest price."""

    __slots__ = ()


class Sweep(Record):
    """Result of `sweep`: numbers of jobs, and the results of the folder."""

    __slots__ = ()

    def runs(self) -> Iterator[Record]:
        """Yields the lines of `results.jsonl`."""
        with open(self._values["results"], encoding="utf-8") as lines:
            for line in lines:
                yield Record(json.loads(line))

    def frame(self) -> Frame:
        """Returns `results.csv` as a table."""
        with open(self._values["table"], encoding="utf-8", newline="") as table:
            return frame_of_csv(table.read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame().__arrow_c_stream__(requested_schema)


def frame_of_csv(text: str) -> Frame:
    """Returns comma-separated values with a heading as a table. Empty cells have no value."""
    heading, *rows = csv.reader(io.StringIO(text))
    return Frame({name: _values([row[at] for row in rows]) for at, name in enumerate(heading)})


def frame_of_records(records: list[dict[str, Any]]) -> Frame:
    """Returns a row for each record, with the plain values of its keys."""
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: [record.get(name) for record in records] for name in names}
    plain = (str, int, float, bool, type(None))
    return Frame({
        name: values for name, values in columns.items() if all(isinstance(value, plain) for value in values)
    })


#: Columns of a catalogue with one value for each drive.
_OF_DRIVE = ("name", "class", "kind", "model")
#: Columns of a catalogue with a value for each size, or one for all sizes.
_OF_SIZE = (
    "size_bytes",
    "tbw_tb",
    "random_read_iops",
    "random_write_iops",
    "sequential_read_mb_per_s",
    "sequential_write_mb_per_s",
    "warranty_years",
    "idle_w",
    "active_w",
)


def frame_of_catalog(entries: list[dict[str, Any]]) -> Frame:
    """Returns a row for each size of each drive. An unknown figure has no value.

    >>> drive = {"name": "a", "size_bytes": [1, 2], "tbw_tb": [5, "unknown"], "warranty_years": 3}
    >>> frame_of_catalog([drive]).to_dict()["tbw_tb"]
    [5.0, None]
    """
    rows = []
    for entry in entries:
        prices = entry.get("price", [])
        latest = max(prices, key=lambda price: price.get("date", ""), default={})
        for at in range(len(entry.get("size_bytes", [None]))):
            row: dict[str, Any] = {name: entry.get(name) for name in _OF_DRIVE}
            row.update({name: _figure(entry.get(name), at) for name in _OF_SIZE})
            rows.append({**row, "price_usd": _figure(latest.get("usd"), at), "price_date": latest.get("date")})
    return frame_of_records(rows)


def _figure(figure: Any, at: int) -> float | None:
    value = figure[at] if isinstance(figure, list) and at < len(figure) else figure
    return float(value) if isinstance(value, (int, float)) else None


def _values(cells: list[str]) -> list[Any]:
    for read in (int, float):
        try:
            return [read(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]
