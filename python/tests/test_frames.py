"""Tables of other libraries. Collected where these are installed: `FRAMES=1 scripts/test-python`."""

import bimetal
import pandas
import polars
import pyarrow
import pytest
from test_trace import COLUMNS


def test_polars_takes_and_gives_tables(office):
    frame = polars.DataFrame(office)
    assert frame.columns == COLUMNS and frame.height == len(office)
    reads = frame.filter(polars.col("op") == "read")
    assert len(bimetal.Trace.from_frame(reads)) == reads.height == 20_860


def test_each_part_of_a_table_has_times_if_one_has():
    part = lambda times: polars.DataFrame({"time_ns": polars.Series(times, dtype=polars.UInt64), "lba": [0], "sectors": [8]})
    table = polars.concat([part([5]), part([None])], rechunk=False)
    with pytest.raises(bimetal.Error, match="time_ns is null: expected a number"):
        bimetal.Trace.from_frame(table)


def test_pandas_takes_and_gives_tables(office):
    frame = pandas.DataFrame(office.slice(0, 1000).frame().to_dict())
    assert bimetal.Trace.from_frame(frame).frame().to_dict() == office.slice(0, 1000).frame().to_dict()


def test_pyarrow_takes_tables_without_a_copy(office):
    one, two = pyarrow.table(office), pyarrow.table(office)
    address = [table.column("lba").chunk(0).buffers()[1].address for table in (one, two)]
    assert address[0] == address[1]
