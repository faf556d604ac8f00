"""The package has the figures of the program, byte for byte."""

import json

import bimetal
import pytest
from conftest import OFFICE, REPOSITORY

#: Text of a figure of the run itself: time and memory.
SPEED = ("wall_s", "requests_per_s", "peak_rss_bytes", "simulations_per_s")


def without_speed(text):
    """Returns the lines of a document, except the lines with the speed of the simulation."""
    return [line for line in text.splitlines() if not line.strip().startswith(tuple(f'"{name}"' for name in SPEED))]


def assert_same(text, printed):
    assert printed.returncode in (0, 3), printed.stderr
    assert without_speed(text) == without_speed(printed.stdout)


@pytest.mark.parametrize(
    ("scheme", "options", "flags"),
    [
        ("smart-response", {"ssd_size": 0.1}, ["--ssd-size", "10%"]),
        ("griffin", {"set": {"timeout": "30s"}, "seed": 7}, ["--set", "timeout=30s", "--seed", "7"]),
        ("griffin", {"replay": "closed:4", "warmup": 0.25}, ["--replay", "closed:4", "--warmup", "0.25"]),
    ],
)
def test_simulate_prints_the_document_of_the_program(office, program, scheme, options, flags):
    result = bimetal.simulate(office.slice(0, 10_000), scheme, **options)
    line = ["simulate", OFFICE, "--limit", 10_000, "--scheme", scheme, *flags, "--json"]
    assert_same(result.to_json(), program(*line))


def test_compare_prints_the_document_and_table_of_the_program(program):
    trace = bimetal.Trace(OFFICE, limit=10_000)
    result = bimetal.compare(trace, ["hdd-only", "smart-response", "griffin"])
    line = ["compare", OFFICE, "--limit", 10_000, "--schemes", "hdd-only,smart-response,griffin"]
    assert_same(result.to_json(), program(*line, "--json"))
    printed = program(*line, "--csv").stdout.splitlines()
    assert result.frame().columns == printed[0].split(",")
    assert len(result.frame()) == len(printed) - 1


def test_compare_of_the_sample_has_the_figures_of_the_program(program):
    schemes = "hdd-only,smart-response"
    result = bimetal.compare(schemes=schemes)
    printed = json.loads(program("compare", "--schemes", schemes, "--json").stdout)
    for document in (printed, own := result.to_dict()):
        del document["command"]
        for run in document["runs"]:
            del run["run"]
    assert own == printed


def test_mrc_and_analyze_print_the_documents_of_the_program(office, program):
    ratios = bimetal.mrc(office, "lru,arc,belady", sizes=[0.01, 1000, "16MiB"])
    line = ["mrc", OFFICE, "--policies", "lru,arc,belady", "--sizes", "1%,1000,16MiB", "--json"]
    assert ratios.to_json() == program(*line).stdout
    assert ratios.frame().columns == ["policy", "size", "miss_ratio", "byte_miss_ratio"]
    assert bimetal.analyze(office, block="8KiB").to_json() == program("analyze", OFFICE, "--block", "8KiB", "--json").stdout


def test_plan_prints_the_document_of_the_program(office, program):
    plan = bimetal.plan(office.slice(0, 3000), latency="p99<20ms", schemes=["hdd-only", "smart-response"])
    line = ["plan", OFFICE, "--limit", 3000, "--latency", "p99<20ms", "--schemes", "hdd-only,smart-response", "--json"]
    assert_same(plan.to_json(), program(*line))


def test_fleet_is_planned_from_the_folder_of_a_sweep(tmp_path, program):
    grid = {"traces": [str(OFFICE)], "schemes": ["hdd-only", "smart-response"], "limit": 500}
    bimetal.sweep(grid, tmp_path / "runs", jobs=1)
    plan = bimetal.plan(fleet=tmp_path / "runs", max_cost=500)
    assert_same(plan.to_json(), program("plan", "--fleet", tmp_path / "runs", "--max-cost", 500, "--json"))


def test_plan_without_an_answer_has_no_best_option(office):
    plan = bimetal.plan(office.slice(0, 1000), latency="max<1us", schemes="hdd-only")
    assert plan.best is None and plan.closest


def test_lists_print_the_documents_of_the_program(program):
    assert [scheme.to_dict() for scheme in bimetal.schemes()] == json.loads(program("schemes", "--json").stdout)["schemes"]
    profiles = json.loads(program("profiles", "--json").stdout)["profiles"]
    assert [profile.to_dict() for profile in bimetal.profiles()] == profiles
    assert bimetal.catalog("crucial-t500").to_json() == program("catalog", "show", "crucial-t500", "--json").stdout


def test_reports_are_written_to_their_files(office, tmp_path):
    part = office.slice(0, 1000)
    bimetal.compare(part, "hdd-only", report=tmp_path / "compare.html")
    bimetal.plan(part, latency="p99<1s", schemes="hdd-only", report=tmp_path / "plan.html")
    for name in ("compare.html", "plan.html"):
        assert "<html" in (tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(bimetal.Error, match="cannot be written"):
        bimetal.compare(part, "hdd-only", report=tmp_path / "nowhere" / "compare.html")


def test_catalog_has_a_row_for_each_size():
    frame = bimetal.catalog("crucial-t500").frame().to_dict()
    assert frame["size_bytes"] == [5e11, 1e12, 2e12, 4e12]
    assert frame["price_usd"] == [73.0, 75.0, 125.0, 300.0]
    assert len(bimetal.catalog().frame()) > 100


def test_sweep_of_a_mapping_runs_each_job_once(tmp_path):
    trace = REPOSITORY / "traces" / "office-server.bin.zst"
    grid = {
        "traces": [trace],
        "schemes": ["hdd-only", "smart-response"],
        "ssd_size": ["64MiB", "256MiB"],
        "limit": 2000,
        "set": {"smart-response.mode": ["enhanced", "maximized"]},
    }
    seen = []
    first = bimetal.sweep(grid, tmp_path / "results", progress=lambda done, total: seen.append((done, total)))
    assert (first.jobs, first.run, first.failures.to_dict()) == (5, 5, {})
    again = bimetal.sweep(tmp_path / "results.toml", tmp_path / "results")
    assert (again.run, again.done_before) == (0, 5)
    frame = again.frame()
    assert len(frame) == len(list(again.runs())) == 5
    assert sorted(frame.to_dict()["scheme"]) == ["hdd-only"] + 4 * ["smart-response"]


def test_command_of_a_result_repeats_it(office, program):
    result = bimetal.simulate(office.slice(0, 2000), "smart-response", ssd_size="64MiB", set={"idle": "50ms"})
    assert result.command == (
        f"bimetal simulate {OFFICE} --limit 2000 --scheme smart-response --ssd-size 64MiB --set idle=50ms --json"
    )
