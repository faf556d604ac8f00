//! Shared parts of the tests of the program.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A loop device over a file; removed on drop.
pub(crate) struct LoopDevice(pub String);

impl LoopDevice {
    /// Makes a loop device; `None` if the system does not permit it. Another program may take the
    /// same free device at the same moment: then the next device is tried.
    pub(crate) fn over(file: &Path, options: &[&str]) -> Option<Self> {
        let mut said = String::new();
        for _ in 0..20 {
            let output = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output().ok()?;
            if output.status.success() {
                let device = Self(String::from_utf8(output.stdout).ok()?.trim().to_owned());
                // A device that its last user set read-only stays read-only.
                assert!(device.set_writable(), "{} stays read-only", device.0);
                return Some(device);
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("losetup: {said}");
        None
    }

    fn set_writable(&self) -> bool {
        Command::new("blockdev").args(["--setrw", &self.0]).status().is_ok_and(|status| status.success())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.set_writable();
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
        // A program that examines the device keeps it open for a moment longer.
        let backing = format!("/sys/block/{}/loop", self.0.trim_start_matches("/dev/"));
        for _ in 0..50 {
            if !Path::new(&backing).exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns true if a command ended with the answer no, and a message with `part`.
#[allow(dead_code, reason = "not every test asks what can be answered with no")]
pub(crate) fn is_no(ended: &std::process::Output, part: &str) -> bool {
    ended.status.code() == Some(3) && String::from_utf8_lossy(&ended.stderr).contains(part)
}
