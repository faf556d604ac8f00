//! `bimetal record` on a loop device, if the kernel permits it; otherwise its message.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::LoopDevice;

const BIMETAL: &str = env!("CARGO_BIN_EXE_bimetal");

/// A loop device over a file of its own; removed on drop.
struct Loop {
    device: LoopDevice,
    directory: PathBuf,
}

impl Loop {
    /// Makes the loop device; `None` if the system does not permit it.
    fn new(name: &str) -> Option<Self> {
        let directory = std::env::temp_dir().join(format!("bimetal-record-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a folder for the test");
        let disk = directory.join("disk");
        File::create(&disk).and_then(|file| file.set_len(64 << 20)).expect("a file for the test");
        match LoopDevice::over(&disk, &[]) {
            Some(device) => Some(Self { device, directory }),
            None => {
                fs::remove_dir_all(directory).expect("the folder of the test goes");
                None
            }
        }
    }

    fn record(&self, output: &str, command: &str) -> Output {
        let output = self.directory.join(output);
        Command::new(BIMETAL)
            .args(["record", &self.device.0, "-o"])
            .arg(output)
            .args(["--", "sh", "-c", &command.replace("DEVICE", &self.device.0)])
            .output()
            .expect("bimetal starts")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the kernel's trace instances, of every process.
fn instances() -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns true if the recording succeeded. If the kernel or the user's rights forbid it, checks
/// for the message and that no file was left behind.
fn was_permitted(output: &Output, file: &Path) -> bool {
    if output.status.success() {
        return true;
    }
    let message = text(&output.stderr);
    let refused = message.contains("needs root") || message.contains("this kernel offers no block events");
    assert!(refused, "{message}");
    assert_eq!(output.status.code(), Some(1));
    assert!(!file.exists());
    false
}

#[test]
fn recorded_trace_has_every_request_with_response_time() {
    let Some(device) = Loop::new("all") else {
        let output = Command::new(BIMETAL).args(["record", "/dev/null", "-o", "/dev/null"]).output().unwrap();
        assert!(text(&output.stderr).contains("expected a block device"));
        return;
    };
    let trace = device.directory.join("trace.csv");
    let output = device.record(
        "trace.csv",
        "dd if=/dev/zero of=DEVICE bs=64k count=16 seek=4 oflag=direct status=none && \
         dd if=DEVICE of=/dev/null bs=4k count=8 skip=100 iflag=direct status=none",
    );
    if !was_permitted(&output, &trace) {
        return;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in fs::read_to_string(&trace).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, operation, sector, sectors, _, response] = fields[..] else { panic!("{line}") };
        let (sector, sectors): (u64, u64) = (sector.parse().unwrap(), sectors.parse().unwrap());
        let expected = match operation {
            "write" => sectors == 128 && (512..512 + 2048).contains(&sector),
            "read" => sectors == 8 && (800..864).contains(&sector),
            _ => true,
        };
        // A program that watches for new devices may read the device, too, so other reads are not
        // errors.
        let name = if expected { operation.to_owned() } else { format!("other {operation}") };
        *counts.entry(name).or_default() += 1;
        assert!(response.parse::<u64>().is_ok_and(|nanoseconds| nanoseconds > 0), "no response time: {line}");
    }
    assert_eq!(counts.get("write"), Some(&16), "{counts:?}");
    assert_eq!(counts.get("read"), Some(&8), "{counts:?}");
    assert_eq!(counts.get("other write"), None, "{counts:?}");
}

#[test]
fn an_idle_device_gives_no_trace_and_says_so() {
    let Some(device) = Loop::new("idle") else { return };
    let trace = device.directory.join("trace.bin.zst");
    // Programs that look for file systems (blkid, mount) read every device, at any time. Such a
    // program makes the device busy, so the recording is repeated.
    let mut output = device.record("trace.bin.zst", "true");
    for _ in 0..20 {
        if !output.status.success() {
            break;
        }
        fs::remove_file(&trace).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(250));
        output = device.record("trace.bin.zst", "true");
    }
    if was_permitted_to_fail(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no request in"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(&device.directory).unwrap().count(), 1, "only the disk is there");
    assert!(!trace.exists());
}

fn was_permitted_to_fail(output: &Output) -> bool {
    let message = text(&output.stderr);
    message.contains("needs root") || message.contains("this kernel offers no block events")
}

#[test]
fn nothing_stays_switched_on_after_a_recording_that_was_stopped() {
    let Some(device) = Loop::new("stop") else { return };
    let trace = device.directory.join("trace.bin.zst");
    let command = format!(
        "{BIMETAL} record {} -o {} & recorder=$!; sleep 0.5; \
         dd if={0} of=/dev/null bs=4k count=4 skip=9 iflag=direct status=none; sleep 0.2; kill -TERM $recorder; wait $recorder",
        device.device.0,
        trace.display()
    );
    let recorder = Command::new("sh").args(["-c", &command]).output().unwrap();
    if !was_permitted(&recorder, &trace) {
        return;
    }
    assert!(trace.exists());
    // An instance has the number of its process in its name. No remaining instance belongs to a
    // process that has ended.
    for instance in instances().iter().filter_map(|name| name.strip_prefix("bimetal-")) {
        assert!(Path::new("/proc").join(instance).exists(), "instance of process {instance} was left behind");
    }
}
