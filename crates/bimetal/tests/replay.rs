//! `bimetal replay` against a server of emulated drives, and its refusals.

#[path = "support/served.rs"]
mod served;

use std::fs;
use std::process::Output;

use served::{BIMETAL, Place};

const DRIVES: &str = "--ssd emulate:samsung-970-evo-plus-500gb:ssd.img --ssd-size 64MiB \
                      --hdd emulate:seagate-barracuda-7200.12-1tb:hdd.img --hdd-size 256MiB";

impl Place {
    fn run(&self, line: &str) -> Output {
        self.command("timeout", &format!("-k 1 60 {BIMETAL} {line}")).output().expect("bimetal starts")
    }

    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn refuse(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).expect("text")
    }

    /// Writes a trace of a few seconds on the first MiBs of two devices.
    fn trace(&self, requests: u64) {
        let mut text = "time_ns,device,op,lba,sectors,fua,response_ns\n".to_owned();
        for at in 0..requests {
            let (op, device) = (if at % 3 == 0 { "write" } else { "read" }, at % 2);
            text += &format!("{},{device},{op},{},8,0,\n", at * 5_000_000, (at * 7919 % 2000) * 8);
        }
        fs::write(self.0.join("work.csv"), text).expect("a trace for the test");
    }
}

#[test]
fn a_trace_is_replayed_and_held_against_the_simulator() {
    let place = Place::new("against");
    place.trace(300);
    place.succeed(&format!("create try --scheme smart-response {DRIVES}"));
    let _running = place.serve("try");
    let json = place.succeed("replay work.csv try --overwrite --against-simulator --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!((&json["issued"], &json["errors"]), (&300.into(), &serde_json::json!({})));
    assert_eq!(json["trace"]["reads"], 200);
    for of in [&json, &json["simulated"]] {
        for kind in ["all", "read", "write"] {
            for figure in ["mean", "p50", "p90", "p95", "p99", "max"] {
                assert!(
                    of["response_time_ms"][kind][figure].as_f64().is_some_and(|ms| ms > 0.0),
                    "{kind} {figure}: {of}"
                );
            }
        }
    }
    // Reads go to the disk at first, and half a turn of the disk alone takes 4 ms. So the load of
    // this machine has little effect.
    let median = |of: &serde_json::Value| of["response_time_ms"]["read"]["p50"].as_f64().unwrap_or(0.0);
    assert!(median(&json) >= 0.5 * median(&json["simulated"]), "{json}");
    let distance = json["simulated"]["ks_distance"]["all"].as_f64().expect("a distance");
    assert!((0.0..=1.0).contains(&distance), "{distance}");
    for member in ["ssd", "hdd"] {
        assert!(json["emulation"][member]["operations"].as_u64().is_some_and(|count| count > 0), "{json}");
    }

    let text = place.succeed("replay work.csv try --reads-only --replay closed:4");
    assert!(text.contains("200 requests in") && text.contains("\nreads ") && !text.contains("\nwrites "), "{text}");
    assert!(text.contains("\nhdd: ") && text.contains(" overruns ("), "{text}");
}

/// The first of two requests takes 3 s less than when it was recorded, so the second comes 3 s
/// sooner: after 100 ms of thinking in place of 3.1 s. Both requests come again in the second
/// round.
#[test]
fn live_replay_waits_for_answers_and_thinks() {
    let place = Place::new("think");
    let text = "time_ns,device,op,lba,sectors,fua,response_ns\n\
                0,0,read,0,8,0,3000000000\n3100000000,0,read,8,8,0,1000000\n";
    fs::write(place.0.join("slow.csv"), text).expect("a trace for the test");
    place.succeed(&format!("create try --scheme smart-response {DRIVES}"));
    let _running = place.serve("try");
    let json = place.succeed("replay slow.csv try --replay think --repeat 2 --against-simulator --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("one document");
    assert_eq!((&json["issued"], &json["errors"]), (&4.into(), &serde_json::json!({})), "{json}");
    assert_eq!(json["options"]["replay"], "think, speedup 1");
    assert_eq!(json["options"]["repeat"], "2");
    // A gap of half the span lies between the rounds: 0.1 + 1.549 + 0.1 s of thinking.
    let seconds = json["duration_s"].as_f64().expect("a duration");
    assert!((1.7..3.0).contains(&seconds), "{json}");
}

#[test]
fn what_would_destroy_or_cannot_be_is_refused_kindly() {
    let place = Place::new("refuse");
    place.trace(20);
    place.succeed(&format!("create try --scheme smart-response {DRIVES}"));
    let unserved = place.refuse("replay work.csv try --overwrite");
    assert!(unserved.contains("cannot connect to unix:") && unserved.contains("bimetal serve"), "{unserved}");

    let _running = place.serve("try");
    let writes = place.refuse("replay work.csv try");
    assert!(writes.contains("7 of its 20 requests are writes or discards"), "{writes}");
    assert!(writes.contains("--overwrite") && writes.contains("--reads-only"), "{writes}");
    let text = "time_ns,device,op,lba,sectors,fua,response_ns\n0,0,read,10485760,8,0,\n";
    fs::write(place.0.join("far.csv"), text).expect("a trace for the test");
    let far = place.refuse("replay far.csv try");
    assert!(far.contains("far.csv: its addresses reach up to 5.0GiB, and volume 'try' has 2"), "{far}");
    assert!(far.contains("--compact"), "{far}");
    place.succeed("replay far.csv try --compact");
    let speed = place.refuse("replay work.csv try --reads-only --replay closed --speedup 2");
    assert!(speed.contains("--speedup: a closed replay ignores the times"), "{speed}");
}

#[test]
fn a_volume_of_drives_of_their_own_cannot_be_simulated() {
    let place = Place::new("own");
    place.trace(20);
    for (name, mib) in [("ssd.img", 64), ("hdd.img", 256)] {
        fs::File::create(place.0.join(name)).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
    }
    place.succeed("create own --scheme smart-response --ssd ssd.img --hdd hdd.img");
    let message = place.refuse("replay work.csv own --overwrite --against-simulator");
    assert!(message.contains("is a real drive, which has no model"), "{message}");
}

#[test]
fn files_that_play_drives_are_made_when_a_size_says_so() {
    let place = Place::new("files");
    let create = "create try --scheme smart-response --ssd emulate:samsung-970-evo-plus-500gb:ssd.img";
    let hdd = "--hdd emulate:seagate-barracuda-7200.12-1tb:hdd.img";
    let message = place.refuse(&format!("{create} {hdd}"));
    assert!(message.contains("hdd.img does not exist: make it with --hdd-size SIZE"), "{message}");
    let message = place.refuse(&format!("{create} --ssd-size 64MiB --hdd emulate:intel-x25-e-32gb:hdd.img"));
    assert!(
        message.contains("--hdd: intel-x25-e-32gb is a profile of kind flash, expected one of kind hdd"),
        "{message}"
    );
    let message =
        place.refuse(&format!("{create} --ssd-size 64MiB --hdd emulate:seagate-baracuda-7200.12-1tb:hdd.img"));
    assert!(message.contains("no profile or file 'seagate-baracuda-7200.12-1tb'; did you mean 'seagate-"), "{message}");
    assert!(!place.0.join("ssd.img").exists(), "what nothing came of is removed");
    let message = place.refuse(&format!("{create} --ssd-size huge {hdd}"));
    assert!(message.contains("expected a size like 32GiB, or drive"), "{message}");

    // The file gets the size of the drive that it emulates. If the file system cannot hold such a
    // file, 1 GiB is used.
    let made = fs::File::create(place.0.join("probe")).and_then(|file| file.set_len(1_000_204_886_016));
    let _ = fs::remove_file(place.0.join("probe"));
    let size = if made.is_ok() { ("drive", 1_000_204_886_016) } else { ("1GiB", 1 << 30) };
    place.succeed(&format!("{create} --ssd-size 64MiB {hdd} --hdd-size {}", size.0));
    let length = |name: &str| fs::metadata(place.0.join(name)).expect("it was made").len();
    assert_eq!((length("ssd.img"), length("hdd.img")), (64 << 20, size.1));
    let message = place.refuse(&format!("{create} --ssd-size 64MiB {hdd} --force"));
    assert!(message.contains("--ssd-size: ssd.img exists already"), "{message}");
}
