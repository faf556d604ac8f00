//! Memory of the machine: how much is free, and whether it is enough for the map of a volume.

use std::fs;
use std::path::Path;

use bimetal_core::layout::Layout;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::units::Bytes;
use rustix::process::{Resource, getrlimit};

/// Number of slots, each with a few bits for its use, that take a byte.
const SLOTS_PER_BYTE: u64 = 2;

/// The map of a volume does not fit into the machine's memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "the drive off home would have {slots} slots of {block}, and their map takes up to {needed} of memory: {free} are \
     free; expected a smaller drive, or a volume with larger blocks (`bimetal create --block`)"
)]
pub struct TooLittleMemory {
    /// Number of slots.
    slots: u64,
    /// Size of a block.
    block: Bytes,
    /// Memory of the map.
    needed: String,
    /// Free memory.
    free: String,
}

impl TooLittleMemory {
    /// Returns a warning for the operator of a volume that exists. The map grows with the slots in
    /// use, so the volume may be served for a long time before the system ends the server.
    pub fn warning(&self) -> String {
        let Self { needed, free, .. } = self;
        format!(
            "the map of the drive off home takes up to {needed} of memory, and {free} are free: the system may end the \
             server when the memory is used up; no flushed write is lost then; expected a machine with more memory"
        )
    }
}

/// Refuses a layout whose map does not fit into the free memory, before anything is changed on the
/// drives. Regression: a drive was attached whose map did not fit, and then no command could open
/// the volume any more.
///
/// # Errors
/// Fails if the map does not fit.
pub fn refuse_too_little(scheme: &SchemeInfo, layout: &Layout) -> Result<(), TooLittleMemory> {
    free_bytes().map_or(Ok(()), |free| refuse_more_than(free, scheme, layout))
}

fn refuse_more_than(free: u64, scheme: &SchemeInfo, layout: &Layout) -> Result<(), TooLittleMemory> {
    let Some(slots) = layout.slots.as_ref().map(|slots| u64::from(slots.count)) else { return Ok(()) };
    // A log may have far more slots than the volume has blocks.
    let of_blocks = slots.min(layout.total_blocks()) as f64 * scheme.memory_bytes_per_block;
    let needed = of_blocks as u64 + slots / SLOTS_PER_BYTE;
    if needed <= free {
        return Ok(());
    }
    let (needed, free) = (Bytes(needed).rounded_up(), Bytes(free).rounded_down());
    Err(TooLittleMemory { slots, block: layout.block.bytes(), needed, free })
}

/// Returns the memory that this process can take, if the system tells. This memory is the free
/// memory of the machine, or of a control group that contains the process, or the limit of the
/// process's addresses, whichever is less. Batch systems and containers set the limits of such
/// groups. Groups of version 1 of the kernel's interface are not read.
pub fn free_bytes() -> Option<u64> {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let path = group.as_deref().and_then(group_path).unwrap_or("/");
    let of_groups = free_of_groups(Path::new("/sys/fs/cgroup"), path);
    let of_addresses = getrlimit(Resource::As).current;
    of_machine.into_iter().chain(of_groups).chain(of_addresses).min()
}

/// Returns the available bytes of the text of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the path of the control group in the text of `/proc/self/cgroup`.
fn group_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Returns the least free memory of the group at `path` and the groups around it, below the folder
/// `root` of all groups. The pages of files that a group has read are free: the system drops them
/// before it refuses memory.
fn free_of_groups(root: &Path, path: &str) -> Option<u64> {
    let free = |group: &Path| {
        let text = |name: &str| fs::read_to_string(group.join(name)).ok();
        let figure = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let used = figure("memory.current")?.saturating_sub(pages_of_files(&text("memory.stat").unwrap_or_default()));
        Some(figure("memory.max")?.saturating_sub(used))
    };
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors().take_while(|group| group.starts_with(root)).filter_map(free).min()
}

/// Returns the bytes of pages of files in the text of `memory.stat`.
fn pages_of_files(text: &str) -> u64 {
    let figures = text.lines().filter_map(|line| line.split_once(' '));
    let of_files = figures.filter(|(name, _)| ["active_file", "inactive_file"].contains(name));
    of_files.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::block::BlockSize;
    use bimetal_core::layout::{LayoutRequest, MemberInfo, Role};
    use bimetal_core::settings::Settings;

    #[test]
    fn free_memory_is_that_of_the_tightest_group() {
        let root = std::env::temp_dir().join(format!("bimetal-groups-{}", std::process::id()));
        let inner = root.join("batch/job");
        fs::create_dir_all(&inner).expect("a folder");
        let write = |folder: &Path, most: &str, used: &str| {
            fs::write(folder.join("memory.max"), most).expect("written");
            fs::write(folder.join("memory.current"), used).expect("written");
        };
        assert_eq!(free_of_groups(&root, "/batch/job"), None);
        write(&inner, "max\n", "10\n");
        assert_eq!(free_of_groups(&root, "/batch/job"), None);
        write(&root.join("batch"), "1000\n", "300\n");
        assert_eq!(free_of_groups(&root, "/batch/job"), Some(700));
        write(&inner, "500\n", "600\n");
        assert_eq!(free_of_groups(&root, "/batch/job"), Some(0));
        assert_eq!(free_of_groups(&root, "/batch"), Some(700));
        let pages = "anon 50\nfile 520\ninactive_file 400\nactive_file 120\n";
        fs::write(inner.join("memory.stat"), pages).expect("written");
        assert_eq!(free_of_groups(&root, "/batch/job"), Some(420), "pages of files count as free");
        fs::remove_dir_all(&root).expect("removed");
    }

    fn layout(scheme: &SchemeInfo, sizes: [Bytes; 2]) -> Layout {
        let member = |role, size: Bytes| MemberInfo { role, capacity: size.sectors() };
        let members = [member(Role::Ssd, sizes[0]), member(Role::Hdd, sizes[1])];
        let settings = Settings::new(scheme.name, scheme.parameters, std::iter::empty()).expect("the defaults");
        let request = LayoutRequest { block: BlockSize::default(), members: &members, units: &[] };
        (scheme.layout)(&settings, &request).expect("a layout")
    }

    #[test]
    fn map_that_does_not_fit_into_memory_is_refused() {
        let scheme = bimetal_core::schemes::find("smart-response").expect("a scheme");
        let layout = layout(scheme, [Bytes::from_gib(1024), Bytes::from_gib(4096)]);
        assert!(refuse_more_than(8 << 30, scheme, &layout).is_ok());
        let lack = refuse_more_than(6 << 30, scheme, &layout).expect_err("6 GiB are too little");
        let (error, warning) = (lack.to_string(), lack.warning());
        assert!(
            error.contains("slots of 4KiB, and their map takes up to 7.") && error.contains(" 6 GiB are"),
            "{error}"
        );
        assert!(warning.contains("takes up to 7.") && warning.contains(" 6 GiB are free"), "{warning}");
    }

    /// Regression: a log of 7 TB before an SSD of 20 GB counted as a map of all slots, and was
    /// refused.
    #[test]
    fn log_takes_memory_for_the_blocks_of_the_volume() {
        let scheme = bimetal_core::schemes::find("griffin").expect("a scheme");
        let layout = layout(scheme, [Bytes::from_gib(20), Bytes::from_gib(7000)]);
        assert!(layout.slots.as_ref().is_some_and(|slots| slots.count > 1 << 30));
        assert!(refuse_more_than(2 << 30, scheme, &layout).is_ok());
    }

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2 kB\n"), Some(2048));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(group_path("1:name=x:/y\n0::/batch/job\n"), Some("/batch/job"));
        assert_eq!(group_path("1:name=x:/y\n"), None);
    }
}
