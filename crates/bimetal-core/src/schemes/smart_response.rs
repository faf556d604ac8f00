//! Intel's Smart Response Technology (Lee, Cho, Kim, Won: *Performance Analysis of SSD/HDD Hybrid
//! Storage Manager*, section II D): the SSD caches blocks of the HDD.
//!
//! Publicly known: *enhanced* mode is write-through ("reflects all writes to HDD and SSD
//! simultaneously"). *Maximized* mode is write-back ("holds the written data to the SSD, and
//! synchronize the data to HDD at system idle time"). The cache works by blocks. The cache
//! recognises a "one-time accessed sequential data stream" and does not cache the stream.
//!
//! Our choices, since the algorithm is unpublished: a stream is recognised by adjacent requests
//! that together reach `stream_bypass`. Replacement is any policy, by default LRU. The drives are
//! idle when neither has had a request for `idle`. The text of the paper leaves open whether a
//! write miss allocates. The prose of the paper says that all writes reach the SSD
//! (`write_allocate=on`, the default); its table 1 lists only reads as cached in enhanced mode
//! (`off`).
//!
//! The prose gives "application, user, and boot data" a higher value than a one-time stream; table
//! 1 adds paging. Without a map of files only streams can be recognised. A map (`--files`) gives
//! each file its class by its path:
//!
//! - boot: a directory `boot` or `EFI`; `vmlinuz*`, `initrd*`, `initramfs*`, `bootmgr`, `ntldr`;
//! - paging: `pagefile.sys`, `swapfile.sys`, `hiberfil.sys`, `swapfile`, `swap.img`;
//! - application: programs and libraries by Combo Drive's table 1
//!   ([`is_program`](super::combo::is_program)), and files below a directory for programs or
//!   libraries;
//! - user: all other files. Metadata of the file system belongs to no file, and has no class.
//!
//! Streams of boot, paging and application data are cached. The paper does not order the classes
//! among each other. Our choice (`classes=priority`): of the quarter of the copies that are next in
//! the policy's order, user data is evicted first.
//!
//! `stream_bypass` was chosen by the score in MB/s, a geometric mean (closed replay at depth 1, OCZ
//! Solid 3 and WD10EALX, the last of three rounds), with an SSD of 10 % of the footprint. The lines
//! have the score with all of the SSD, with 10 % and with 20 % of the footprint, and MiB written to
//! the SSD with 10 %:
//!
//! - the project's first seven traces: 256KiB 20.3, 13.9, 14.5, 1,615; 1MiB 21.6, 13.5, 14.7,
//!   2,122; 4MiB 25.0, 13.3, 13.6, 2,864; off 26.0, 13.2, 13.1, 5,376;
//! - seven public traces that were left out of the choice (CloudPhysics, Financial1, MSR, YCSB,
//!   three of DiskMon): 256KiB 16.0, 10.1, 10.5, 2,938; 1MiB 19.6, 10.2, 10.5, 4,136; 4MiB 20.6,
//!   10.1, 10.4, 4,990; off 22.3, 10.1, 10.4, 7,023.
//!
//! So an SSD that holds the whole footprint is up to 40 % faster with `stream_bypass=off`. A
//! smaller SSD is as fast with 256KiB, and gets less than half of the writes that it gets with
//! `off`.

use super::cache::{Cache, Decisions};
use crate::block::{Block, BlockRun};
use crate::block_map;
use crate::layout::{Layout, MemberId, Role};
use crate::policies::admission;
use crate::policies::file_map::FileMap;
use crate::policies::lru;
use crate::policies::replacement::Policy;
use crate::policies::room::{Room, Round};
use crate::policies::streams::Streams;
use crate::scheme::{
    Access, CacheMode, FileExtent, Foresight, Holds, LinuxCounterpart, Placement, Reason, Scheme, SchemeInfo, View,
    Work,
};
use crate::settings::{MOVE_RATE, SettingError, Settings, parameters, words};
use crate::units::{Bytes, Nanoseconds, SectorRange};

parameters! {
    /// Parameters of the scheme.
    struct Parameters {
        /// enhanced: write-through; maximized: write-back, with dirty blocks written back when both
        /// drives are idle (table 1)
        mode: Mode = "enhanced",
        /// on: a write of an uncached block is cached, as the article's prose says; off: the write
        /// goes to the HDD alone, as table 1 says
        write_allocate: bool = "on" live,
        /// adjacent requests that together reach this size are a one-time stream and bypass the
        /// cache (our figure, measured)
        stream_bypass: Option<Bytes> = "256KiB" live,
        /// use of a map of files; priority: streams of boot, paging and application data are
        /// cached, and user data is evicted first (our choice); streams: streams of boot, paging
        /// and application data are cached; off: the map of files has no effect
        classes: Classes = "priority" live,
        /// the drives are idle when no request has used them for this long (our figure)
        idle: Nanoseconds = "100ms" live,
        /// policy that chooses the clean copy to evict (our choice); belady: the bound that knows
        /// the future, in a simulation only
        replacement: Policy = "lru",
    }
    and admission::PARAMETER, MOVE_RATE
}

/// Description of the scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "smart-response",
    summary: "the SSD caches reads and writes of the HDD; long sequential streams bypass the cache",
    source: "Intel Smart Response Technology, as in Performance Analysis of SSD/HDD Hybrid Storage Manager, II D",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed; each cached block is wholly old or wholly new",
    ssd_loss: "enhanced: nothing; maximized: writes that were not written back yet",
    hdd_loss: "all data",
    bypass: &[
        (Reason::SEQUENTIAL, "the stream has reached stream_bypass"),
        (Reason::NOT_ADMITTED, "write_allocate=off, and the block was not cached"),
        (Reason::NO_SPACE, "no slot was free: slots were still being freed"),
    ],
    // With the default policy. The memory of each other policy stands in its file.
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK + lru::BYTES_PER_BLOCK,
    takes_only_what_is_accessed: true,
    linux_counterpart: |settings| {
        Some(LinuxCounterpart::DmCache(match Parameters::of(settings).mode {
            Mode::Maximized => CacheMode::WriteBack,
            Mode::Enhanced => CacheMode::WriteThrough,
        }))
    },
    layout: |_, request| Ok(request.ssd_caches_hdd()?),
    build,
};

/// Directories of programs and libraries.
const APPLICATION_DIRECTORIES: &[&str] =
    &["bin", "sbin", "lib", "lib32", "lib64", "libexec", "program files", "program files (x86)", "windows"];
const PAGING_FILES: &[&str] = &["pagefile.sys", "swapfile.sys", "hiberfil.sys", "swapfile", "swap.img"];
const BOOT_FILES: &[&str] = &["vmlinuz", "initrd", "initramfs", "bootmgr", "ntldr"];

/// Class of a file's data. Boot, paging and application data are of higher value than user data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DataClass {
    Boot,
    Paging,
    Application,
    User,
}

impl DataClass {
    /// Returns the class that a file's path gives its data.
    fn of(path: &str) -> Self {
        let path = path.to_ascii_lowercase();
        let mut parts = path.rsplit(['/', '\\']);
        let name = parts.next().unwrap_or_default();
        let directories: Vec<&str> = parts.collect();
        if PAGING_FILES.contains(&name) {
            Self::Paging
        } else if directories.iter().any(|directory| ["boot", "efi"].contains(directory))
            || BOOT_FILES.iter().any(|start| name.starts_with(start))
        {
            Self::Boot
        } else if super::combo::is_program(&path)
            || directories.iter().any(|directory| APPLICATION_DIRECTORIES.contains(directory))
        {
            Self::Application
        } else {
            Self::User
        }
    }
}

words! {
    /// Destination of writes.
    enum Mode {
        /// Both drives.
        Enhanced = "enhanced",
        /// The SSD, until both drives are idle.
        Maximized = "maximized",
    }
}

words! {
    /// Use of the data classes of a map of files.
    enum Classes {
        /// Streams of boot, paging and application data are cached, and user data is evicted first.
        Priority = "priority",
        /// Streams of boot, paging and application data are cached.
        Streams = "streams",
        /// The map has no effect.
        Off = "off",
    }
}

struct SmartResponse {
    classes: Classes,
    /// Map of files by [`DataClass`]; `None` without a map.
    files: Option<FileMap>,
    write_back: bool,
    write_allocate: bool,
    stream_bypass: Bytes,
    idle: Nanoseconds,
    hdd: MemberId,
    streams: Streams,
    synchronised: Round,
}

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let slots = layout.slots.map_or(0, |slots| slots.count);
    let parameters = Parameters::of(settings);
    let room = Room::new((parameters.replacement.0.build)(slots), slots);
    let decisions = SmartResponse {
        classes: parameters.classes,
        files: None,
        write_back: parameters.mode == Mode::Maximized,
        write_allocate: parameters.write_allocate,
        stream_bypass: parameters.stream_bypass.unwrap_or(Bytes::MAX),
        idle: parameters.idle,
        hdd: layout.home[0].member,
        streams: Streams::default(),
        synchronised: Round::default(),
    };
    Ok(Cache::boxed(settings, layout, room, decisions))
}

impl SmartResponse {
    /// Returns the time at which dirty blocks may be written back because both drives are idle: "at
    /// system idle time".
    fn synchronise_at(&self, view: &View) -> Option<Nanoseconds> {
        let wanted = self.write_back && view.map.dirty_blocks() > 0 && !view.moving && view.slots_online();
        if !wanted {
            return None;
        }
        let ssd = view.layout.slots?.member;
        Some(view.member(self.hdd).idle_at(self.idle)?.max(view.member(ssd).idle_at(self.idle)?))
    }

    fn to_cache(&self, view: &View, blocks: u64) -> (Placement, u64) {
        match (view.free_slots, self.write_back) {
            (0, _) => (Placement::Home(Some(Reason::NO_SPACE)), blocks),
            (free, true) => (Placement::Slot, blocks.min(free)),
            (free, false) => (Placement::Both, blocks.min(free)),
        }
    }
}

/// Returns two facts about the files that `sectors` touch: whether any of them is user data, and
/// whether any is of higher value. Metadata of the file system is not user data, and not of higher
/// value.
fn classes_in(files: Option<&FileMap>, sectors: SectorRange) -> (bool, bool) {
    let Some(files) = files else { return (false, false) };
    files.parts(sectors).fold((false, false), |(user, valued), (file, _)| {
        let is_user = files.class(file) == DataClass::User as u32;
        (user | is_user, valued | !is_user)
    })
}

impl Decisions for SmartResponse {
    type Contents = Room;

    fn set(&mut self, _room: &mut Room, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            let Parameters { stream_bypass, classes, idle, write_allocate, .. } = Parameters::of(settings);
            self.stream_bypass = stream_bypass.unwrap_or(Bytes::MAX);
            (self.classes, self.idle, self.write_allocate) = (classes, idle, write_allocate);
        }
        Ok(live)
    }

    fn foresee(&mut self, foresight: &Foresight<'_>) {
        let map = FileMap::new(foresight.files, |extent: &FileExtent| DataClass::of(&extent.path) as u32);
        self.files = (!map.is_empty()).then_some(map);
    }

    fn arrived(&mut self, _room: &mut Room, _view: &View, access: &Access) {
        self.streams.note(access.kind, access.sectors);
    }

    fn bypasses(&mut self, _view: &View, access: &Access) -> Option<Reason> {
        let is_stream = self.streams.length(access.kind, access.sectors) >= self.stream_bypass
            && (self.classes == Classes::Off || !classes_in(self.files.as_ref(), access.sectors).1);
        is_stream.then_some(Reason::SEQUENTIAL)
    }

    fn place_write(&mut self, _room: &mut Room, view: &View, _: &Access, rest: BlockRun) -> (Placement, u64) {
        if self.write_allocate {
            return self.to_cache(view, rest.count);
        }
        let cached = view.map.get(rest.first).is_some();
        let alike = rest.blocks().take_while(|&block| view.map.get(block).is_some() == cached).count() as u64;
        if cached { self.to_cache(view, alike) } else { (Placement::Home(Some(Reason::NOT_ADMITTED)), alike) }
    }

    fn next_timeout(&self, room: &Room, view: &View) -> Option<Nanoseconds> {
        if room.is_due(view) { Some(view.now) } else { self.synchronise_at(view) }
    }

    fn work(&mut self, room: &mut Room, view: &View) -> Work {
        if self.classes == Classes::Priority && self.files.is_some() && room.is_due(view) {
            let (files, block) = (self.files.as_ref(), view.block().sectors());
            let goes_first = |at: Block| classes_in(files, SectorRange::new(at.0 * block, block)) == (true, false);
            return room.make_sparing(view, |at| !goes_first(at));
        }
        let write_back_at = self.synchronise_at(view);
        room.work(view, write_back_at, &mut self.synchronised)
    }
}

#[cfg(test)]
mod tests {
    use super::DataClass;
    use crate::operation::OpKind;
    use crate::scheme::{FileExtent, Foresight};
    use crate::testing::Bench;
    use crate::units::{Nanoseconds, SectorRange};

    #[test]
    fn a_read_miss_is_promoted_and_hits_afterwards() {
        let mut bench = Bench::new("smart-response", &[]);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["hdd read 8", "ssd write 8"]);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    #[test]
    fn enhanced_mode_writes_both_drives_and_leaves_nothing_dirty() {
        let mut bench = Bench::new("smart-response", &[]);
        bench.request(OpKind::Write, 80, 8);
        assert_eq!(bench.take_log(), ["hdd write 8", "ssd write 8"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
        bench.request(OpKind::Read, 80, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    /// Maximized mode writes to the SSD alone. Dirty blocks are written back when the HDD is idle,
    /// and stay cached.
    #[test]
    fn maximized_mode_synchronises_when_the_hdd_is_idle() {
        let mut bench = Bench::new("smart-response", &[("mode", "maximized")]);
        bench.request(OpKind::Write, 80, 16);
        assert_eq!(bench.take_log(), ["ssd write 16"]);
        assert_eq!(bench.volume.view().map.dirty_blocks(), 2);
        bench.pass(Nanoseconds::from_millis(150));
        let expected = ["ssd read 16", "ssd write 8", "ssd write 8", "ssd flush 0", "hdd write 16", "hdd flush 0"];
        assert_eq!(bench.take_log(), expected, "their records are durable before home changes");
        assert_eq!(bench.volume.view().map.dirty_blocks(), 0);
        bench.request(OpKind::Read, 80, 16);
        assert_eq!(bench.take_log(), ["ssd read 16"], "synchronised blocks stay cached");
    }

    /// Without write allocation only blocks that are cached already are written to the SSD.
    #[test]
    fn uncached_writes_skip_the_ssd_without_write_allocation() {
        let mut bench = Bench::new("smart-response", &[("write_allocate", "off")]);
        bench.request(OpKind::Write, 80, 8);
        assert_eq!(bench.take_log(), ["hdd write 8"]);
        bench.request(OpKind::Read, 80, 8);
        bench.take_log();
        // The first change in place of a region with clean copies is preceded by a durable mark.
        bench.request(OpKind::Write, 80, 16);
        let log = bench.take_log();
        assert_eq!(log[log.len() - 2..], ["hdd write 16", "ssd write 8"], "{log:?}");
    }

    #[test]
    fn a_long_sequential_stream_passes_by() {
        let mut bench = Bench::new("smart-response", &[("stream_bypass", "64KiB")]);
        for at in 0..40 {
            bench.request(OpKind::Read, 8000 + at * 8, 8);
        }
        let log = bench.take_log();
        assert_eq!(log.iter().filter(|line| *line == "ssd write 8").count(), 15, "the stream is one from 64 KiB on");
        assert_eq!(bench.volume.statistics().bypassed_blocks.values().sum::<u64>(), 25);
    }

    #[test]
    fn path_decides_the_class_of_data() {
        for (class, paths) in [
            (DataClass::Boot, ["/boot/grub/grub.cfg", "vmlinuz-6.1", "C:\\EFI\\x"]),
            (DataClass::Paging, ["C:\\pagefile.sys", "/swapfile", "/swap.img"]),
            (DataClass::Application, ["/usr/lib/python3/os.py", "/opt/a/libx.so.1", "C:\\Program Files\\a.txt"]),
            (DataClass::User, ["/srv/a/film.mp4", "/srv/a/notes.txt", "/swapfile/notes"]),
        ] {
            for path in paths {
                assert_eq!(DataClass::of(path), class, "{path}");
            }
        }
    }

    /// Returns a bench whose map of files has programs in the first 64 sectors from 8000 on, and
    /// user data behind.
    fn with_map(settings: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new("smart-response", settings);
        let extent = |path: &str, start, sectors| FileExtent {
            path: path.into(),
            sectors: SectorRange::new(start, sectors),
            listed: None,
        };
        let files = [extent("usr/lib/a.so", 8000, 320), extent("home/film", 8320, 200_000)];
        bench.volume.foresee(&Foresight { tells_half: false, files: &files });
        bench
    }

    /// A stream of application data is cached, and a stream of user data bypasses the cache.
    #[test]
    fn stream_of_a_program_is_cached_with_a_map() {
        let cached = |classes: &str| {
            let mut bench = with_map(&[("stream_bypass", "64KiB"), ("classes", classes)]);
            [8000, 8320].map(|start| {
                (0..40).for_each(|at| bench.request(OpKind::Read, start + at * 8, 8));
                bench.take_log().iter().filter(|line| *line == "ssd write 8").count()
            })
        };
        assert_eq!(cached("streams"), [40, 0], "the film continues the stream");
        assert_eq!(cached("priority"), [40, 0]);
        assert_eq!(cached("off"), [15, 0]);
    }

    /// User data is evicted before older application data.
    #[test]
    fn user_data_is_evicted_before_application_data() {
        let hits = |classes: &str| {
            let mut bench = with_map(&[("classes", classes)]);
            let slots = u64::from(bench.volume.view().map.slots());
            (0..4).for_each(|at| bench.request(OpKind::Read, 8000 + at * 16, 8));
            (0..2 * slots).for_each(|at| bench.request(OpKind::Read, 16_000 + at * 16, 8));
            bench.take_log();
            (0..4).for_each(|at| bench.request(OpKind::Read, 8000 + at * 16, 8));
            bench.take_log().iter().filter(|line| *line == "ssd read 8").count()
        };
        assert_eq!([hits("priority"), hits("streams"), hits("off")], [4, 0, 0]);
    }

    /// Every replacement policy evicts slots under reads and writes, and the policies decide
    /// differently.
    #[test]
    fn every_policy_evicts_by_its_own_choice() {
        let mut evicted = std::collections::BTreeMap::new();
        for &policy in crate::policies::replacement::ONLINE_NAMES {
            for mode in ["enhanced", "maximized"] {
                let mut bench = Bench::new("smart-response", &[("replacement", policy), ("mode", mode)]);
                let slots = u64::from(bench.volume.view().map.slots());
                let mut hits = 0;
                let mut random = 1u64;
                for step in 0..4 * slots {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let block = (random >> 33) % if step % 2 == 0 { slots / 2 } else { 5 * slots };
                    let kind = if step % 5 == 0 { OpKind::Write } else { OpKind::Read };
                    bench.request(kind, block * 16, 8);
                    hits += u64::from(kind == OpKind::Read && bench.take_log() == ["ssd read 8"]);
                }
                let statistics = bench.volume.statistics();
                let given_up = statistics.evicted_blocks + statistics.migrations.blocks;
                assert!(given_up > slots, "{policy} {mode}: {given_up}");
                assert!(hits > slots / 8, "{policy} {mode}: {hits} hits");
                evicted.insert((mode, policy), (bench.volume.statistics().evicted_blocks, hits));
            }
        }
        let distinct: std::collections::BTreeSet<_> = evicted.values().collect();
        assert!(distinct.len() > 9, "policies decide differently: {evicted:?}");
    }

    #[test]
    fn the_least_recently_used_copies_make_room() {
        let mut bench = Bench::new("smart-response", &[]);
        let slots = u64::from(bench.volume.view().map.slots());
        for block in 0..slots + 100 {
            bench.request(OpKind::Read, block * 16, 8);
            bench.request(OpKind::Read, 0, 8);
        }
        bench.take_log();
        bench.request(OpKind::Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"], "what is used again and again stays");
        bench.request(OpKind::Read, 16, 8);
        assert_eq!(bench.take_log()[0], "hdd read 8", "what was used once, long ago, is gone");
        assert!(bench.volume.statistics().evicted_blocks >= 100);
    }
}
