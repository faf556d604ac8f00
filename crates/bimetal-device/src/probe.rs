//! Properties of a path: a file or a block device, its size, its sectors, and its users.
//!
//! The answers come from the kernel: from the files under `/proc` and `/sys` and from attempts to
//! open the drive; no content is read. Uses of a drive are searched in several ways, because each
//! way misses some uses:
//!
//! - mounts of the drive and of its partitions, and swap
//! - devices stacked on the drive (LVM, md, bcache, loop)
//! - an exclusive owner
//! - a lock on a file

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use bimetal_core::units::{Bytes, SECTOR_BYTES};
use rustix::fs::{Access, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Number of a block device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device in its driver.
    pub minor: u32,
}

impl DeviceNumber {
    fn of(number: u64) -> Self {
        Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// Kind of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Regular file.
    File,
    /// Block device.
    Device(DeviceNumber),
}

/// Use of a drive. `device` is the drive itself or one of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// A file system on the drive is mounted.
    Mounted {
        /// Drive or partition.
        device: String,
        /// Mount point.
        at: String,
    },
    /// The drive is swap space.
    Swap {
        /// Drive or partition.
        device: String,
    },
    /// The drive is part of another device.
    Held {
        /// Drive or partition.
        device: String,
        /// Name of the other device.
        by: String,
    },
    /// A program or the kernel has opened the drive exclusively.
    Owned,
}

impl Use {
    /// Describes the use of a drive, with the command that ends the use.
    pub fn describe(&self) -> String {
        match self {
            Self::Mounted { device, at } => format!("{device} is mounted at {at}: unmount it first (umount {at})"),
            Self::Swap { device } => format!("{device} is swap space: switch it off first (swapoff {device})"),
            Self::Held { device, by } => {
                let remedy = match by.trim_end_matches(|c: char| c.is_ascii_digit()) {
                    "loop" => format!("losetup -d /dev/{by}"),
                    "dm-" => format!("dmsetup remove /dev/{by}, or vgchange -an for LVM"),
                    "md" => format!("mdadm --stop /dev/{by}"),
                    _ => format!("take /dev/{by} down"),
                };
                format!("{device} is a part of /dev/{by}: stop /dev/{by} first ({remedy})")
            }
            Self::Owned => "another program has opened it exclusively: end that program first".to_owned(),
        }
    }
}

/// Bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilePart {
    /// Number of the file with its file system.
    file: (u64, u64),
    /// First byte, and the end.
    span: [u64; 2],
}

impl FilePart {
    fn overlaps(self, other: Self) -> bool {
        self.file == other.file && self.span[0] < other.span[1] && other.span[0] < self.span[1]
    }
}

/// Properties of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Path of the drive, as the user gave it.
    pub path: PathBuf,
    /// Path without links and dots.
    pub canonical: PathBuf,
    /// Kind of the path.
    pub kind: Kind,
    /// Number that no other drive of this machine has: of the device, or of the file with its file
    /// system.
    pub identity: (u64, u64),
    /// Size of the drive.
    pub size: Bytes,
    /// Size of the smallest possible write, in bytes.
    pub logical_sector: u32,
    /// Size of the smallest write that needs no read before it, in bytes.
    pub physical_sector: u32,
    /// Set if the drive rotates; `None` for a file.
    pub rotational: Option<bool>,
    /// Set if the drive cannot be written.
    pub read_only: bool,
    /// Uses of the drive.
    pub uses: Vec<Use>,
    /// Partitions of a disk, or the disk of a partition.
    pub relatives: Vec<DeviceNumber>,
    /// The file, or the part of a file that a loop device shows; `None` for any other device.
    pub file: Option<FilePart>,
}

/// Reasons for which a path cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The path does not exist.
    #[error("{}: no such file or device{}", path.display(), hint(.path))]
    NotThere {
        /// Path that was given.
        path: PathBuf,
    },
    /// The path is neither a file nor a block device.
    #[error("{}: is {what}; expected a block device or a regular file", path.display())]
    Kind {
        /// Path that was given.
        path: PathBuf,
        /// Kind of the path.
        what: &'static str,
    },
    /// The path may not be opened.
    #[error("{}: cannot be read: {error}{}", path.display(), if error.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() {
        ": use sudo, or a group that may read and write the drive" } else { "" })]
    Io {
        /// Path that was given.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Returns the command that makes a file, for a path that does not exist and may be meant as a
/// file.
fn hint(path: &Path) -> String {
    if path.starts_with("/dev") {
        return String::new();
    }
    format!(" (a file is made with: truncate -s 64G {})", path.display())
}

/// Reads the properties of `path`.
///
/// # Errors
/// Fails if the path does not exist, is neither a file nor a block device, or may not be read.
pub fn probe(path: &Path) -> Result<Probe, ProbeError> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ProbeError::NotThere { path: path.to_owned() },
        _ => ProbeError::Io { path: path.to_owned(), error },
    };
    let canonical = fs::canonicalize(path).map_err(io)?;
    let metadata = fs::metadata(&canonical).map_err(io)?;
    let probe = Probe {
        path: path.to_owned(),
        kind: Kind::File,
        identity: (metadata.dev(), metadata.ino()),
        size: Bytes(metadata.size()),
        logical_sector: SECTOR_BYTES as u32,
        physical_sector: 4096,
        rotational: None,
        read_only: rustix::fs::access(&canonical, Access::WRITE_OK).is_err(),
        uses: Vec::new(),
        relatives: Vec::new(),
        file: None,
        canonical,
    };
    let file_type = metadata.file_type();
    if file_type.is_file() {
        probe_file(probe).map_err(io)
    } else if file_type.is_block_device() {
        probe_device(probe, DeviceNumber::of(metadata.rdev())).map_err(io)
    } else {
        let what = match () {
            () if file_type.is_dir() => "a directory",
            () if file_type.is_char_device() => "a character device",
            () if file_type.is_socket() => "a socket",
            () => "a pipe",
        };
        Err(ProbeError::Kind { path: path.to_owned(), what })
    }
}

fn probe_file(mut probe: Probe) -> io::Result<Probe> {
    let file = fs::File::open(&probe.canonical)?;
    probe.file = Some(FilePart { file: probe.identity, span: [0, probe.size.0] });
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        probe.uses.push(Use::Owned);
    }
    let device = probe.path.display().to_string();
    for name in block_devices() {
        // The file may have several names, and some file systems do not keep the number of a file.
        let shown = shown_file(&Path::new("/sys/class/block").join(&name));
        if shown.is_some_and(|(path, metadata)| {
            path == probe.canonical || (metadata.dev(), metadata.ino()) == probe.identity
        }) {
            probe.uses.push(Use::Held { device: device.clone(), by: name });
        }
    }
    if swaps().contains(&probe.canonical) {
        probe.uses.push(Use::Swap { device });
    }
    Ok(probe)
}

fn probe_device(mut probe: Probe, number: DeviceNumber) -> io::Result<Probe> {
    let open = |flags| rustix::fs::open(&probe.canonical, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let device = open(OFlags::RDONLY)?;
    let own = sysfs(number);
    // A partition has no queue of its own.
    let queue = [own.join("queue"), own.join("../queue")].into_iter().find(|queue| queue.is_dir());
    let flag = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim() == "1");
    let size = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
    let logical_sector = rustix::fs::ioctl_blksszget(&device).unwrap_or(SECTOR_BYTES as u32);
    let physical_sector = rustix::fs::ioctl_blkpbszget(&device).unwrap_or(logical_sector);
    let partitions = partitions_of(&own);
    let mut uses = Vec::new();
    let name = probe.path.display().to_string();
    let parts = partitions.iter().map(|(number, partition)| (*number, format!("/dev/{partition}")));
    for (number, name) in std::iter::once((number, name)).chain(parts) {
        uses.extend(uses_of(number, &name));
    }
    // Another command that probes the device holds it for an instant, as this one does.
    let look = || try_times(7, || open(OFlags::RDONLY | OFlags::EXCL));
    if uses.is_empty() && look().is_err_and(|error| error == Errno::BUSY) {
        uses.push(Use::Owned);
    }
    if let Some((path, metadata)) = shown_file(&own) {
        let number = |name: &str| fs::read_to_string(own.join("loop").join(name)).ok()?.trim().parse::<u64>().ok();
        let first = number("offset").unwrap_or_default();
        probe.file =
            Some(FilePart { file: (metadata.dev(), metadata.ino()), span: [first, first.saturating_add(size)] });
        // A program that has locked the file does not expect changes through the device.
        let is_locked = fs::File::open(path).is_ok_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        });
        if uses.is_empty() && is_locked {
            uses.push(Use::Owned);
        }
    }
    let disk = own.join("partition").exists().then(|| number_in(&own.join("../dev"))).flatten();
    probe.kind = Kind::Device(number);
    probe.identity = (u64::MAX, u64::from(number.major) << 32 | u64::from(number.minor));
    (probe.size, probe.logical_sector, probe.physical_sector) = (Bytes(size), logical_sector, physical_sector);
    probe.rotational = queue.and_then(|queue| flag(queue.join("rotational")));
    probe.read_only |= flag(own.join("ro")).unwrap_or(false);
    probe.uses = uses;
    probe.relatives = partitions.into_iter().map(|(number, _)| number).chain(disk).collect();
    Ok(probe)
}

impl Probe {
    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Returns true if the two are the same drive, if one is a partition of the other, or if they
    /// have the same bytes of a file.
    pub fn overlaps(&self, other: &Self) -> bool {
        let part_of =
            |one: &Self, other: &Self| matches!(one.kind, Kind::Device(number) if other.relatives.contains(&number));
        let same_file = self.file.zip(other.file).is_some_and(|(one, other)| one.overlaps(other));
        self.identity == other.identity || part_of(self, other) || same_file
    }
}

/// Returns the file that a loop device shows; `device` is its folder in `/sys`.
fn shown_file(device: &Path) -> Option<(PathBuf, fs::Metadata)> {
    let path = fs::read_to_string(device.join("loop/backing_file")).ok()?;
    let path = PathBuf::from(path.trim_end_matches('\n'));
    let metadata = fs::metadata(&path).ok()?;
    Some((path, metadata))
}

/// Returns mounts, swap and holders of one device.
fn uses_of(number: DeviceNumber, device: &str) -> Vec<Use> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut uses: Vec<Use> =
        mount_points(&mounts, |mounted, source| mounted == number || number_of(source) == Some(number))
            .map(|at| Use::Mounted { device: device.to_owned(), at })
            .collect();
    if swaps().iter().any(|swap| number_of(&swap.to_string_lossy()) == Some(number)) {
        uses.push(Use::Swap { device: device.to_owned() });
    }
    let holders = fs::read_dir(sysfs(number).join("holders")).into_iter().flatten().flatten();
    uses.extend(
        holders.map(|holder| Use::Held {
            device: device.to_owned(),
            by: holder.file_name().to_string_lossy().into_owned(),
        }),
    );
    uses
}

/// Returns the mount points of file systems whose device is `wanted`. The device has its number and
/// its name from the table of mounts, because some file systems have a number of their own in the
/// table.
fn mount_points<'a>(
    mountinfo: &'a str,
    wanted: impl Fn(DeviceNumber, &str) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    mountinfo.lines().filter_map(move |line| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(2);
        let number = DeviceNumber::parse(fields.next()?)?;
        let at = fields.nth(1)?;
        let source = unescape(rest.split(' ').nth(1)?);
        wanted(number, &source).then(|| unescape(at))
    })
}

/// Decodes a path in the kernel's tables: space, tab, line end and backslash are `\` and three
/// octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|digits| byte == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0u8, |value, digit| value << 3 | (digit - b'0')));
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns files and devices that are swap space.
fn swaps() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let names = table.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    names.map(|name| PathBuf::from(unescape(name))).collect()
}

/// Returns the number of the device at `path`, if it is a device.
fn number_of(path: &str) -> Option<DeviceNumber> {
    let metadata = fs::metadata(path).ok().filter(|metadata| metadata.file_type().is_block_device())?;
    Some(DeviceNumber::of(metadata.rdev()))
}

fn sysfs(number: DeviceNumber) -> PathBuf {
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", number.major, number.minor));
    // The parent of a partition is found by the real path only.
    fs::canonicalize(&link).unwrap_or(link)
}

fn number_in(file: &Path) -> Option<DeviceNumber> {
    DeviceNumber::parse(&fs::read_to_string(file).ok()?)
}

/// Returns number and name of each partition of the disk whose folder in `/sys` is `disk`.
fn partitions_of(disk: &Path) -> Vec<(DeviceNumber, String)> {
    let entries = fs::read_dir(disk).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists()).filter_map(|entry| {
        Some((number_in(&entry.path().join("dev"))?, entry.file_name().to_string_lossy().into_owned()))
    });
    let mut partitions: Vec<_> = partitions.collect();
    partitions.sort();
    partitions
}

/// Returns the names of all block devices, sorted.
pub fn block_devices() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns true if the block device `name` is part of another device.
pub fn has_holders(name: &str) -> bool {
    let holders = Path::new("/sys/class/block").join(name).join("holders");
    fs::read_dir(holders).is_ok_and(|mut holders| holders.next().is_some())
}

/// Repeats an attempt up to `times` times, 10 ms apart, to take a thing that another program may
/// hold for an instant.
pub(crate) fn try_times<T>(times: u32, mut take: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..times {
        match take() {
            Err(Errno::WOULDBLOCK | Errno::BUSY | Errno::INTR) => sleep(Duration::from_millis(10)),
            taken => return taken,
        }
    }
    take()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:45 /sub /srv/a\\040b rw - btrfs /dev/sdb rw,space_cache
31 22 8:1 /var /var rw master:1 - ext4 /dev/sda1 rw
32 22 0:5 / /proc rw - proc proc rw
";

    #[test]
    fn every_mount_of_a_device_is_found_by_number_and_by_name() {
        let sda1 = DeviceNumber { major: 8, minor: 1 };
        let found: Vec<_> = mount_points(MOUNTINFO, |number, _| number == sda1).collect();
        assert_eq!(found, ["/", "/var"]);
        let found: Vec<_> = mount_points(MOUNTINFO, |_, source| source == "/dev/sdb").collect();
        assert_eq!(found, ["/srv/a b"]);
    }

    #[test]
    fn the_kernel_s_escapes_are_read() {
        assert_eq!(unescape("a\\040b\\134c\\"), "a b\\c\\");
        assert_eq!(unescape("\\04"), "\\04");
    }

    #[test]
    fn what_is_no_drive_is_named_for_what_it_is() {
        let message = probe(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(message, "/dev/null: is a character device; expected a block device or a regular file");
        let message = probe(Path::new("/proc")).unwrap_err().to_string();
        assert!(message.contains("is a directory"), "{message}");
        let message = probe(Path::new("nowhere.img")).unwrap_err().to_string();
        assert!(message.ends_with("(a file is made with: truncate -s 64G nowhere.img)"), "{message}");
    }
}
