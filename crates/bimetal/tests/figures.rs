//! One vocabulary: the same trace through the simulator and through a live volume of emulated
//! drives gives the same keys, and the same values where time has no part in them.

#[path = "support/served.rs"]
mod served;

use std::fs;

use serde_json::Value;
use served::{BIMETAL, Place};

const SSD: &str = "intel-x25-m-80gb";
const HDD: &str = "seagate-barracuda-7200.12-1tb";

impl Place {
    fn succeed(&self, line: &str) -> Value {
        let output = self.command(BIMETAL, &format!("{line} --json")).output().expect("bimetal starts");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one document")
    }
}

/// Returns a trace of a few seconds. 40 blocks are written, and there is time to migrate them; then
/// 30 of them are written again, some twice, and read. Other blocks are read, half of them from
/// block `far` on. At the end there is time for background work.
fn trace(far: u64) -> String {
    let mut text = "time_ns,device,op,lba,sectors,fua,response_ns\n".to_owned();
    let mut now_ms = 0;
    let mut put = |op: &str, block: u64, wait_ms: u64| {
        text += &format!("{},0,{op},{},8,0,\n", now_ms * 1_000_000, block * 8);
        now_ms += wait_ms;
    };
    (0..40).for_each(|at| put("write", at * 3, if at == 39 { 1500 } else { 4 }));
    (0..50).for_each(|at| put("write", at % 30 * 3, 4));
    (0..20).for_each(|at| put("read", at * 3, 4));
    (0..50).for_each(|at| put("read", [2000, far][at as usize % 2] + at * 97, 25));
    put("read", 0, 1000);
    put("read", 0, 4);
    text
}

/// A volume, and the first of the far blocks that are read.
struct Case {
    scheme: &'static str,
    /// Options for the scheme.
    set: &'static str,
    /// Option and profile of each drive, of 64 and of 256 MiB.
    drives: [(&'static str, &'static str); 2],
    far: u64,
}

impl Case {
    fn of(scheme: &'static str, set: &'static str) -> Self {
        Self { scheme, set, drives: [("--ssd ", SSD), ("--hdd ", HDD)], far: 9000 }
    }

    /// Returns the status of a live volume after the trace, and the run of the simulator.
    fn both(&self, name: &str) -> (Value, Value) {
        let place = Place::new(name);
        fs::write(place.0.join("work.csv"), trace(self.far)).expect("a trace for the test");
        let Self { scheme, set, drives: [(ssd, profile), (other, profile_of_other)], .. } = self;
        for (name, mib) in [("ssd.img", 64), ("other.img", 256)] {
            fs::File::create(place.0.join(name)).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
        }
        let drives = format!("{ssd}emulate:{profile}:ssd.img {other}emulate:{profile_of_other}:other.img");
        place.succeed(&format!("create {name} --scheme {scheme} {set} {drives}"));
        let _running = place.serve(name);
        place.succeed(&format!("replay work.csv {name} --overwrite"));
        let status = place.succeed(&format!("status {name}"));
        let size = if *other == "--hdd " { " --hdd-size 256MiB" } else { ":256MiB" };
        let drives = format!("{ssd}{profile} --ssd-size 64MiB {other}{profile_of_other}{size}");
        let simulated = place.succeed(&format!("simulate work.csv --scheme {scheme} {set} {drives}"));
        (status, simulated["runs"][0].clone())
    }
}

/// Asserts that all numbers and nulls are equal: figures of a simulation have nine digits.
fn assert_same(what: &str, live: &Value, simulated: &Value) {
    match (live, simulated) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{what}: {live} live, {simulated} simulated");
            one.iter().for_each(|(key, value)| assert_same(&format!("{what}.{key}"), value, &other[key]));
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            assert!((one - other).abs() <= 1e-8 * other.abs(), "{what}: {one} live, {other} simulated");
        }
        _ => assert_eq!(live, simulated, "{what}, live and simulated"),
    }
}

/// Asserts that the objects have the same keys, at every depth.
fn assert_same_keys(what: &str, live: &Value, simulated: &Value) {
    if let (Value::Object(one), Value::Object(other)) = (live, simulated) {
        assert!(one.keys().eq(other.keys()), "{what}: {live} live, {simulated} simulated");
        one.iter().for_each(|(key, value)| assert_same_keys(&format!("{what}.{key}"), value, &other[key]));
    }
}

/// Asserts that a live volume and the simulator agree, and returns the figures.
fn agreed(name: &str, case: &Case) -> Value {
    let (live, simulated) = case.both(name);
    let what = |key: &str| format!("{name}: {key}");
    for key in ["write_savings", "read_penalty", "ssd_hit_ratio", "bypass"] {
        assert_same(&what(key), &live[key], &simulated[key]);
    }
    for key in ["count", "bytes", "mean_bytes"] {
        assert_same(&what(key), &live["migration"][key], &simulated["migration"][key]);
    }
    for key in ["response_time_ms", "throughput", "migration"] {
        assert_same_keys(&what(key), &live[key], &simulated[key]);
    }
    let members = |of: &Value| of["members"].as_array().cloned().unwrap_or_default();
    assert_eq!(members(&live).len(), 2, "{live}");
    for (live, simulated) in members(&live).iter().zip(&members(&simulated)) {
        for key in ["id", "role", "profile", "bytes", "read_bytes"] {
            assert_same(&what(key), &live[key], &simulated[key]);
        }
        // A live volume writes more metadata: it commits in its own time.
        let content = |member: &Value| member["write_bytes"].as_u64().zip(member["metadata_bytes"].as_u64());
        let content = |member| content(member).map(|(all, metadata)| all - metadata);
        assert_eq!(content(live), content(simulated), "{name}: {live} live, {simulated} simulated");
        assert!(content(live).is_some(), "{live}");
    }
    let requests = (&live["requests"]["reads"], &live["requests"]["writes"]);
    assert_eq!(requests, (&72.into(), &90.into()), "{name}: {live}");
    simulated
}

#[test]
fn griffin_has_the_same_figures_live_and_simulated() {
    let set = "--set migration_size=160KiB --set timeout=off --set read_threshold=off --set log_buffer=0";
    let of = agreed("griffin", &Case::of("griffin", set));
    assert_eq!((&of["migration"]["count"], &of["migration"]["bytes"]), (&1.into(), &163_840.into()));
    // 40 blocks migrated and 30 wait, of 90 written; 22 of 72 reads are of blocks in the log.
    assert_same("write savings", &of["write_savings"], &(1.0 - 70.0 / 90.0).into());
    assert_same("read penalty", &of["read_penalty"], &(22.0 / 72.0).into());
}

/// Regression: a log on flash is an SSD as well: its writes were not hits in a status, and all of
/// its writes were hits in a simulation.
#[test]
fn log_on_flash_counts_as_an_ssd_live_and_simulated() {
    let case = Case::of("griffin", "--set timeout=off --set read_threshold=off --set log_buffer=0");
    let of = agreed("log", &Case { drives: [("--ssd ", SSD), ("--member log=", SSD)], ..case });
    assert_eq!((&of["ssd_hit_ratio"]["write"], &of["ssd_hit_ratio"]["read"]), (&1.0.into(), &1.0.into()));
}

#[test]
fn smart_response_has_the_same_figures_in_both() {
    let of = agreed("smart", &Case::of("smart-response", ""));
    assert_eq!(of["ssd_hit_ratio"]["write"], 1.0);
}

#[test]
fn hybrid_disk_has_the_same_figures_live_and_simulated() {
    let of = agreed("hybrid", &Case::of("hybrid-disk", ""));
    assert_same("hits", &of["ssd_hit_ratio"]["read"], &(22.0 / 72.0).into());
}

#[test]
fn combo_has_the_same_figures_live_and_simulated() {
    let of = agreed("combo", &Case { far: 30_000, ..Case::of("combo", "") });
    // 25 reads are beyond the SSD's end.
    assert_same("hits", &of["ssd_hit_ratio"]["read"], &(47.0 / 72.0).into());
    assert_eq!(of["migration"]["count"], Value::Null);
}

/// Regression: ranges that move count as migrations in a simulation and in a status: a status had
/// no such migrations.
#[test]
fn combo_with_ranges_that_move_counts_migrations() {
    let of = agreed("ranges", &Case::of("combo", "--set strategy=frequency --set period=1h"));
    assert_eq!(of["migration"]["count"], 0);
}
