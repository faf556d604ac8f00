//! Records the kernel's block events through tracefs, in a trace instance of its own, so other
//! users' tracing is not disturbed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::device::Device;
use super::{RecordError, Source};
use crate::formats::{self, LineFormat};

/// Path at which tracefs is mounted if it is not mounted yet.
const MOUNT_POINT: &str = "/sys/kernel/tracing";
/// Beginning of the names of instances; the number of the creating process follows.
const INSTANCE_PREFIX: &str = "bimetal-";
/// Size of the buffer of each processor: some 200 000 events.
const BUFFER_KIB: u32 = 16_384;
const EVENTS: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];

/// Trace instance that records. A dropped instance undoes all changes to the system.
pub(super) struct Tracefs {
    instance: PathBuf,
    pipe: File,
    reader: formats::tracefs::Tracefs,
    /// Present if this program mounted tracefs.
    mounted: Option<Mounted>,
}

/// Mount of tracefs, unmounted on drop.
struct Mounted;

impl Drop for Mounted {
    fn drop(&mut self) {
        // Fails as busy if another program uses the mount by now; it then stays mounted.
        let _ = rustix::mount::unmount(MOUNT_POINT, rustix::mount::UnmountFlags::empty());
    }
}

/// Trace instance, removed on drop.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

impl Tracefs {
    pub(super) fn start(device: &Device) -> Result<Self, RecordError> {
        let (root, mounted) = find_or_mount()?;
        remove_stale(&root);
        let path = root.join("instances").join(format!("{INSTANCE_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| failed(&path, error))?;
        let instance = Instance(path);
        let path = &instance.0;
        // The instance records nothing until everything is set.
        write(&path.join("tracing_on"), "0")?;
        write(&path.join("trace_clock"), "mono")?;
        write(&path.join("buffer_size_kb"), &BUFFER_KIB.to_string())?;
        let filter: Vec<String> =
            device.numbers.iter().map(|(major, minor)| format!("dev == {}", (major << 20) | minor)).collect();
        for event in EVENTS {
            let event = path.join("events/block").join(event);
            write(&event.join("filter"), &filter.join(" || "))?;
            write(&event.join("enable"), "1")?;
        }
        let pipe_path = path.join("trace_pipe");
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(&pipe_path)
            .map_err(|error| failed(&pipe_path, error))?;
        write(&path.join("tracing_on"), "1")?;
        let path = path.clone();
        std::mem::forget(instance);
        Ok(Self { instance: path, pipe, reader: formats::tracefs::Tracefs::default(), mounted })
    }
}

impl Source for Tracefs {
    fn read(&mut self, text: &mut Vec<u8>) -> Result<bool, RecordError> {
        let mut buffer = [0; 1 << 16];
        match self.pipe.read(&mut buffer) {
            Ok(length) => {
                text.extend_from_slice(&buffer[..length]);
                Ok(length > 0)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(failed(&self.instance.join("trace_pipe"), error)),
        }
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        write(&self.instance.join("tracing_on"), "0")
    }

    fn lost_events(&mut self) -> Result<u64, RecordError> {
        let folder = self.instance.join("per_cpu");
        let mut lost = 0;
        for cpu in fs::read_dir(&folder).map_err(|error| failed(&folder, error))?.flatten() {
            let path = cpu.path().join("stats");
            let stats = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            lost += stats.lines().filter_map(lost_of).sum::<u64>();
        }
        Ok(lost)
    }

    fn reader(&mut self) -> &mut dyn LineFormat {
        &mut self.reader
    }

    fn name(&self) -> &'static str {
        "tracefs"
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        // An open pipe would keep the instance busy.
        if let Ok(null) = File::open("/dev/null") {
            self.pipe = null;
        }
        remove(&self.instance);
        drop(self.mounted.take());
    }
}

/// Returns the number of lost events in a line of a processor's `stats`.
fn lost_of(line: &str) -> Option<u64> {
    let (name, value) = line.split_once(':')?;
    matches!(name, "overrun" | "commit overrun" | "dropped events").then(|| value.trim().parse().ok())?
}

/// Switches an instance off and removes the instance.
fn remove(instance: &Path) {
    // Best effort: a file that no longer exists needs nothing.
    let _ = write(&instance.join("tracing_on"), "0");
    let _ = write(&instance.join("events/enable"), "0");
    let _ = fs::remove_dir(instance);
}

/// Removes the instances of killed processes, which could not remove their instances.
fn remove_stale(root: &Path) {
    let Ok(instances) = fs::read_dir(root.join("instances")) else { return };
    for instance in instances.flatten() {
        let name = instance.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(INSTANCE_PREFIX).and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists()) {
            remove(&instance.path());
        }
    }
}

/// Returns the path at which tracefs is mounted; mounts it if it is not mounted.
fn find_or_mount() -> Result<(PathBuf, Option<Mounted>), RecordError> {
    let mounts = fs::read_to_string("/proc/mounts").map_err(|error| failed(Path::new("/proc/mounts"), error))?;
    if let Some(root) = mount_of_tracefs(&mounts) {
        return Ok((root, None));
    }
    rustix::mount::mount("tracefs", MOUNT_POINT, "tracefs", rustix::mount::MountFlags::empty(), None)
        .map_err(|error| failed(Path::new(MOUNT_POINT), error.into()))?;
    Ok((PathBuf::from(MOUNT_POINT), Some(Mounted)))
}

fn mount_of_tracefs(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, mount_point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "tracefs").then(|| PathBuf::from(mount_point))
    })
}

fn write(path: &Path, text: &str) -> Result<(), RecordError> {
    let mut file = OpenOptions::new().write(true).open(path).map_err(|error| failed(path, error))?;
    file.write_all(text.as_bytes()).map_err(|error| failed(path, error))
}

/// Converts an error: a user who is not root is told to use root; root is told the error of the
/// kernel.
fn failed(path: &Path, error: io::Error) -> RecordError {
    let path = path.to_owned();
    if error.kind() == io::ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() {
        RecordError::NeedsRoot { path, error }
    } else {
        RecordError::Io { path, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let mounts = "proc /proc proc rw 0 0\nt /sys/kernel/debug/tracing tracefs rw 0 0\n";
        assert_eq!(mount_of_tracefs(mounts), Some(PathBuf::from("/sys/kernel/debug/tracing")));
        assert_eq!(mount_of_tracefs("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn every_way_of_losing_events_is_counted() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 2\nbytes: 100\ndropped events: 4\nread events: 77\n";
        assert_eq!(stats.lines().filter_map(lost_of).sum::<u64>(), 9);
    }
}
