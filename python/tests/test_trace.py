"""Traces from files and tables, and tables of traces."""

import array

import bimetal
import pytest
from conftest import OFFICE

COLUMNS = ["time_ns", "device", "op", "lba", "sectors", "fua", "response_ns"]


def test_trace_has_the_properties_of_its_file(office):
    assert (len(office), office.name, office.format) == (53_806, str(OFFICE), "bin")
    assert office.has_times and office.devices == [0] and office.skipped_lines == 0


def test_frame_has_the_columns_of_the_csv_format(office):
    frame = office.frame()
    assert frame.columns == COLUMNS and len(frame) == len(office)
    columns = frame.to_dict()
    assert columns["time_ns"][0] == 0
    assert set(columns["op"]) <= {"read", "write", "flush", "discard", "write-zeroes"}


def test_trace_of_its_own_frame_gives_the_same_figures(office):
    part = office.slice(0, 5000)
    again = bimetal.Trace.from_frame(part)
    figures = [bimetal.simulate(trace, "smart-response", ssd_size="64MiB") for trace in (part, again)]
    assert figures[0].response_time_ms.to_dict() == figures[1].response_time_ms.to_dict()
    assert again.frame().to_dict() == part.frame().to_dict()


def test_requests_of_a_frame_are_merged_if_they_are_queue_events(office):
    part = office.slice(0, 2000)
    frame = part.frame().to_dict()

    def issued(**options):
        run = bimetal.simulate(bimetal.Trace.from_frame(frame, **options), "hdd-only")
        return run.block_layer and run.block_layer.issued

    assert issued() is None and issued(event="issue") is None
    assert issued(event="queue") == bimetal.simulate(part, "hdd-only").block_layer.issued < 2000
    with pytest.raises(bimetal.Error, match="unknown event 'both': expected queue or issue"):
        bimetal.Trace.from_frame(frame, event="both")


def test_slice_begins_at_time_zero(office):
    part = office.slice(100, 200)
    assert len(part) == 100 and part.frame().to_dict()["time_ns"][0] == 0
    assert part.name == f"{OFFICE}[100:200]"
    whole, own = office.frame().to_dict(), part.frame().to_dict()
    assert own["lba"] == whole["lba"][100:200]
    assert own["time_ns"][-1] == whole["time_ns"][199] - whole["time_ns"][100]
    with pytest.raises(bimetal.Error, match="has no request"):
        office.slice(5, 5)


def test_device_selects_its_requests():
    trace = bimetal.Trace.from_frame({"time_ns": [5, 6, 9], "device": [1, 0, 1], "lba": [0, 8, 16], "sectors": [8, 8, 8]})
    assert trace.devices == [0, 1]
    assert trace.device(1).frame().to_dict()["time_ns"] == [0, 4]
    with pytest.raises(bimetal.Error, match="device 7: the part has no request"):
        trace.device(7)


def test_flush_of_a_table_has_no_place():
    columns = {"time_ns": [1, 2], "op": ["write", "flush"], "lba": [0, 10**9], "sectors": [8, 0]}
    trace = bimetal.Trace.from_frame(columns)
    assert trace.frame().to_dict()["lba"] == [0, 0]


def test_requests_of_a_table_are_sorted_by_time():
    trace = bimetal.Trace.from_frame({"time_ns": [30, 10, 20], "lba": [3, 1, 2], "sectors": [8, 8, 8]})
    columns = trace.frame().to_dict()
    assert (columns["time_ns"], columns["lba"]) == ([0, 10, 20], [1, 2, 3])
    assert columns["op"] == ["read"] * 3 and columns["response_ns"] == [None] * 3


def test_times_further_apart_than_a_century_are_refused():
    with pytest.raises(bimetal.Error, match="expected less than 100 years between them"):
        bimetal.Trace.from_frame({"time_ns": [0, 2**62], "lba": [0, 8], "sectors": [8, 8]})


def test_name_of_a_trace_may_look_like_an_option():
    trace = bimetal.Trace.from_frame({"lba": [0], "sectors": [8]}, name="--limit")
    assert bimetal.simulate(trace, "hdd-only").to_dict()["trace"]["name"] == "--limit"


def test_arrays_without_times_are_played_closed():
    trace = bimetal.Trace.from_frame({"lba": array.array("Q", [0, 800, 0]), "sectors": array.array("I", [8, 8, 8])})
    assert not trace.has_times and trace.frame().to_dict()["time_ns"] == [None] * 3
    assert bimetal.simulate(trace, "hdd-only").options.replay == "closed:1"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lba": [0]}, "the table has no column sectors"),
        ({"lba": [0], "sectors": [0]}, "row 0: size 0: expected at least 1 sector"),
        ({"lba": [8, -1], "sectors": [8, 8]}, "row 1: lba -1: expected a number from 0 on"),
        ({"lba": [1 << 40], "sectors": [8]}, "row 0: sector 1099511627776: expected a sector below 2^40"),
        ({"lba": [0], "sectors": [8], "op": ["trim"]}, "row 0: op 'trim': expected read, write"),
        ({"lba": [0.5], "sectors": [8]}, "row 0: lba 0.5: expected a whole number"),
        ({"lba": [None], "sectors": [8]}, "row 0: lba is null"),
        ({"lba": [], "sectors": []}, "the table has no row"),
    ],
)
def test_wrong_table_is_refused_with_its_row(columns, message):
    with pytest.raises(bimetal.Error) as refused:
        bimetal.Trace.from_frame(columns)
    assert str(refused.value).startswith(f"frame: {message}")


def test_missing_and_unreadable_traces_are_refused(tmp_path):
    with pytest.raises(bimetal.Error, match="nowhere.csv: .*No such file"):
        bimetal.Trace(tmp_path / "nowhere.csv")
    (tmp_path / "text").write_text("no trace\n")
    with pytest.raises(ValueError, match="text"):
        bimetal.Trace(tmp_path / "text")
    with pytest.raises(bimetal.Error, match="did you mean 'msr'"):
        bimetal.Trace(OFFICE, format="mrs")
