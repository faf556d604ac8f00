//! Memory of the machine: how much is free, and the allocator's threshold for large blocks.

use std::fs;
use std::path::Path;

/// Blocks of at least this many bytes are mapped from the system and unmapped when freed.
const LARGE_BYTES: i32 = 4 << 20;

/// Sets the allocator to map every large block freshly from the system, which zeroes pages at first
/// use. By default, the GNU allocator raises its threshold to 32 MiB when the first large block is
/// freed. The allocator then writes zeros all over each block that it reuses. The large blocks of
/// this program are maps of large volumes, and a run that ends early uses only a small part of
/// them. With this setting a plan of many such runs takes half the time and a third of the memory.
pub(crate) fn take_large_blocks_from_the_system() {
    #[cfg(all(target_env = "gnu", target_pointer_width = "64"))]
    {
        // SAFETY: `mallopt` takes two numbers and sets one parameter of the allocator.
        #[expect(unsafe_code, reason = "the C library's allocator has no other way in")]
        let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
        debug_assert_eq!(is_set, 1, "the allocator takes any limit of up to 32 MiB");
    }
}

/// Returns the memory that this process can take, if the system tells. This memory is the free
/// memory of the machine, or of a control group that contains the process, if the control group has
/// less. Batch systems and containers set the limits of such groups. Groups of version 1 of the
/// kernel's interface are not read.
pub(crate) fn free_bytes() -> Option<u64> {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let path = group.as_deref().and_then(group_path).unwrap_or("/");
    let of_groups = free_of_groups(Path::new("/sys/fs/cgroup"), path);
    of_machine.into_iter().chain(of_groups).min()
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

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2 kB\n"), Some(2048));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(group_path("1:name=x:/y\n0::/batch/job\n"), Some("/batch/job"));
        assert_eq!(group_path("1:name=x:/y\n"), None);
    }
}
