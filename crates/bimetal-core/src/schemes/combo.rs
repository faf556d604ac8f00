//! Combo Drive (Payer, Sanvido, Bandic, Kirsch: *Combo Drive*, WISH 2009): SSD and HDD concatenated.
//!
//! Section 2: of n = k + l clusters the SSD holds the lower addresses, 0 to k − 1, and the HDD the higher ones. The drive
//! moves nothing by itself; file systems that prefer low addresses gain at once. Nothing is held twice, so no
//! drive can stand in for the other.
//!
//! Section 3.1's optimizers move files; here they move ranges of addresses, which are of one size, or belong to files where a map of files is
//! given. *Type*, strategy 1: "move executable files and program libraries to the SSD and move the remaining files to the HDD" (table 1, and what
//! Linux has for it). *Access*, strategy 2: "move files that are randomly accessed to the SSD, move files that are contiguously accessed to the HDD, and move files that are
//! both [...] to the HDD". *Frequency*, strategy 3: "move the most frequently used files to the SSD and move all other files to the HDD". The
//! statistics are taken "periodically", and "the optimizer is applied after each period".
//!
//! Our choices: an access is contiguous that begins where another ended; a range is accessed randomly when at least `random` of its accesses are not; it is
//! frequently used from `frequent` accesses a period on. What the SSD cannot hold stays, the most accessed first. Of what
//! leaves it, what is accessed contiguously (strategy 2), then what is used least, leaves first, and nothing leaves for which nothing comes. Each
//! drive has one range to spare, and every move is an exchange: one range leaves the SSD for the HDD's free place, the other
//! takes its place. A range goes behind the one that precedes it where that place is free. Moves begin when the HDD is idle, one at a time.

use std::collections::VecDeque;

use crate::block::Block;
use crate::layout::{Layout, MemberId, Role};
use crate::operation::OpKind;
use crate::places::Places;
use crate::policies::streams::Streams;
use crate::scheme::{Access, FileExtent, Foresight, Holds, MemberState, Scheme, SchemeInfo, View, Work};
use crate::settings::{Kind, Parameter, SettingError, Settings};
use crate::units::{Bytes, Nanoseconds};

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "combo",
    summary: "SSD and HDD concatenated, the SSD at the low addresses; ranges can be exchanged by what they are used for",
    source: "Combo Drive (WISH 2009), sections 2 and 3",
    members: &[(Role::Ssd, Holds::Ranges), (Role::Hdd, Holds::Home)],
    parameters: &[
        Parameter {
            name: "strategy",
            kind: Kind::Choice(&["none", "type", "access", "frequency"]),
            default: "none",
            doc: "what lies on the SSD: the low addresses; executables and libraries (strategy 1, needs a map of files); \
                  what is accessed randomly (2); what is used most (3)",
        },
        Parameter { name: "range", kind: Kind::Size, default: "1MiB", doc: "what moves together (our figure)" },
        Parameter {
            name: "period",
            kind: Kind::Duration,
            default: "300s",
            doc: "how long accesses are counted before the optimizer is applied (3.1.2; our figure)",
        },
        Parameter {
            name: "repeat",
            kind: Kind::Choice(&["on", "off"]),
            default: "on",
            doc: "on: the optimizer is applied after each period; off: once",
        },
        Parameter {
            name: "random",
            kind: Kind::Fraction,
            default: "0.9",
            doc: "strategy=access: this share of accesses that continue no other makes a range random (our figure)",
        },
        Parameter {
            name: "frequent",
            kind: Kind::Count,
            default: "2",
            doc: "strategy=frequency: so many accesses in a period make a range frequently used (our figure)",
        },
        Parameter {
            name: "refine",
            kind: Kind::Choice(&["on", "off"]),
            default: "off",
            doc: "on: parts of files move by their own accesses (3.1.2, future work); off: a file moves as a whole",
        },
        Parameter {
            name: "idle",
            kind: Kind::Duration,
            default: "100ms",
            doc: "ranges move when no request has used the HDD for this long (our figure)",
        },
    ],
    worst_crash: "what was not flushed, as on the bare drives",
    ssd_loss: "all data that lies on the SSD: the low addresses, or what was moved there",
    hdd_loss: "all data on the HDD; with a strategy, all data",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        let homes = [request.only(Role::Ssd)?, request.only(Role::Hdd)?];
        if settings.text("strategy") == "none" {
            return Ok(request.concatenated(&homes)?);
        }
        let range_blocks = settings.size("range").unwrap_or_default().0 / request.block.bytes().0;
        // A range is in memory while it moves, and requests for it wait.
        if range_blocks == 0 || range_blocks * request.block.bytes().0 > RANGE_MAX.0 {
            return Err(settings.refuse("range", format!("a size from a block to {RANGE_MAX}")).into());
        }
        Ok(request.relocatable(&homes, range_blocks)?)
    },
    build,
};

/// Table 1, and what Linux has in their place.
const EXECUTABLE: &[&str] = &["exe", "dll", "sys", "msi", "cab", "drv", "jar", "so", "ko", "elf", "bin", "a", "o"];
/// Where Linux keeps programs that have no extension.
const PROGRAM_DIRECTORIES: &[&str] = &["bin", "sbin", "libexec"];

/// The largest range.
const RANGE_MAX: Bytes = Bytes::from_mib(16);
/// How long a move waits that could not be made, and how often it is tried.
const PAUSE: Nanoseconds = Nanoseconds::from_millis(1);
const TRIES: u8 = 100;

/// Below this an optimizer would run all the time.
const PERIOD_MIN: Nanoseconds = Nanoseconds::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Type,
    Access,
    Frequency,
}

struct Combo;

impl Scheme for Combo {}

struct Optimizer {
    strategy: Strategy,
    period: Nanoseconds,
    repeat: bool,
    random: f64,
    frequent: u32,
    refine: bool,
    idle: Nanoseconds,
    ssd: MemberId,
    hdd: MemberId,
    streams: Streams,
    counts: Vec<Counts>,
    /// Whether anything was counted, and when the optimizer is applied next.
    counted: bool,
    next_run: Option<Nanoseconds>,
    /// For each range the file it belongs to, if there is a map.
    files: Vec<u32>,
    /// Whether each file is a program.
    programs: Vec<bool>,
    /// Ranges on their way, and where to.
    moves: VecDeque<(u32, MemberId)>,
    /// How often the first of them was tried, and when it is again.
    tries: u8,
    not_before: Nanoseconds,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    accesses: u32,
    contiguous: u32,
}

const NO_FILE: u32 = u32::MAX;

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let strategy = match settings.text("strategy") {
        "type" => Strategy::Type,
        "access" => Strategy::Access,
        "frequency" => Strategy::Frequency,
        _ => return Ok(Box::new(Combo)),
    };
    let places = layout.places.as_ref().expect("a strategy moves ranges between places");
    let period = settings.duration("period").unwrap_or(Nanoseconds::MAX);
    if period < PERIOD_MIN {
        return Err(settings.refuse("period", format!("at least {PERIOD_MIN}")));
    }
    Ok(Box::new(Optimizer {
        strategy,
        period,
        repeat: settings.text("repeat") == "on",
        random: settings.fraction("random").unwrap_or(1.0),
        frequent: settings.count("frequent").clamp(1, u64::from(u32::MAX)) as u32,
        refine: settings.text("refine") == "on",
        idle: settings.duration("idle").unwrap_or(Nanoseconds::MAX),
        ssd: layout.home[0].member,
        hdd: layout.home[1].member,
        streams: Streams::default(),
        counts: vec![Counts::default(); places.ranges() as usize],
        counted: false,
        next_run: Some(period),
        files: Vec::new(),
        programs: Vec::new(),
        moves: VecDeque::new(),
        tries: 0,
        not_before: Nanoseconds::ZERO,
    }))
}

/// Whether table 1 has a file of this name on the SSD. A type that it does not list goes to the HDD.
pub fn is_program(path: &str) -> bool {
    let mut parts = path.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let in_program_directory = parts.next().is_some_and(|directory| PROGRAM_DIRECTORIES.contains(&directory));
    // A library's version stands behind its extension: libc.so.6.
    let mut extensions = name.split('.').skip(1).peekable();
    let executable = match name.rsplit_once('.') {
        Some((_, last)) => EXECUTABLE.contains(&last) || extensions.any(|extension| extension == "so"),
        None => false,
    };
    executable || (in_program_directory && !name.contains('.'))
}

impl Optimizer {
    fn range_sectors(places: &Places, view: &View) -> u64 {
        places.range_blocks() * view.block().sectors()
    }

    /// What moves together with `range`: itself, or its file.
    fn unit_of(&self, range: u32) -> u64 {
        match self.files.get(range as usize) {
            Some(&file) if file != NO_FILE && !self.refine => u64::from(file) | 1 << 32,
            _ => u64::from(range),
        }
    }

    /// How much each range belongs on the SSD; nothing for those that do not.
    fn merits(&self) -> Vec<(u32, u32)> {
        let mut of_unit: std::collections::BTreeMap<u64, Counts> = std::collections::BTreeMap::new();
        let ranges = 0..self.counts.len() as u32;
        for range in ranges.clone() {
            let counts = self.counts[range as usize];
            if counts.accesses > 0 {
                let unit = of_unit.entry(self.unit_of(range)).or_default();
                unit.accesses = unit.accesses.saturating_add(counts.accesses);
                unit.contiguous = unit.contiguous.saturating_add(counts.contiguous);
            }
        }
        let merit = |range: u32| {
            let counts = of_unit.get(&self.unit_of(range)).copied().unwrap_or_default();
            let random = f64::from(counts.accesses - counts.contiguous) >= self.random * f64::from(counts.accesses);
            let wanted = match self.strategy {
                Strategy::Type => {
                    let file = self.files.get(range as usize).copied().unwrap_or(NO_FILE);
                    return (file != NO_FILE && self.programs[file as usize]).then_some((range, counts.accesses));
                }
                Strategy::Access => counts.accesses > 0 && random,
                Strategy::Frequency => counts.accesses >= self.frequent,
            };
            wanted.then_some((range, counts.accesses))
        };
        ranges.filter_map(merit).collect()
    }

    /// Plans the exchanges that put on the SSD what belongs there.
    fn optimize(&mut self, places: &Places) {
        let mut wanted = self.merits();
        wanted.sort_by_key(|&(range, merit)| (std::cmp::Reverse(merit), range));
        let (_, room) = places.held_by(self.ssd);
        wanted.truncate(room as usize - 1);
        let mut stays = vec![false; places.ranges() as usize];
        wanted.iter().for_each(|&(range, _)| stays[range as usize] = true);
        let comes = wanted.iter().map(|&(range, _)| range).filter(|&range| places.member_of(range) == self.hdd);
        let mut leaves: Vec<u32> = (0..places.ranges())
            .filter(|&range| places.member_of(range) == self.ssd && !stays[range as usize])
            .collect();
        let contiguous = |counts: Counts| if self.strategy == Strategy::Access { counts.contiguous } else { 0 };
        leaves.sort_by_key(|&range| {
            let counts = self.counts[range as usize];
            (std::cmp::Reverse(contiguous(counts)), counts.accesses, range)
        });
        self.moves.clear();
        for (come, leave) in comes.zip(leaves) {
            self.moves.push_back((leave, self.hdd));
            self.moves.push_back((come, self.ssd));
        }
        self.counts.fill(Counts::default());
        self.counted = false;
    }

    fn move_at(&self, view: &View) -> Option<Nanoseconds> {
        let online = view.members.iter().all(|member| member.state == MemberState::Online);
        if self.moves.is_empty() || view.relocating || !online {
            return None;
        }
        Some(view.member(self.hdd).idle_at(self.idle)?.max(self.not_before))
    }

    /// Forgets the moves that were made. One that cannot be made ends the rest: they are exchanges.
    fn note_moved(&mut self, view: &View) {
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        while self.moves.front().is_some_and(|&(range, to)| places.member_of(range) == to) {
            self.moves.pop_front();
            self.tries = 0;
        }
        if self.tries == TRIES {
            self.tries = 0;
            self.moves.clear();
        }
    }

    /// The first move that was not made yet.
    fn next_move(&mut self, view: &View) -> Option<(u32, MemberId)> {
        self.tries += 1;
        self.not_before = view.now.saturating_add(PAUSE);
        self.moves.front().copied()
    }

    fn run_at(&self, view: &View) -> Option<Nanoseconds> {
        let wanted = (self.counted || self.strategy == Strategy::Type) && self.moves.is_empty() && !view.relocating;
        self.next_run.filter(|_| wanted)
    }

    /// Takes a map of files: a range belongs to the first that has a part of it.
    fn take_files(&mut self, files: &[FileExtent], range_sectors: u64) {
        self.files = vec![NO_FILE; self.counts.len()];
        let mut numbers = std::collections::BTreeMap::new();
        for extent in files {
            let next = numbers.len() as u32;
            let number = *numbers.entry(extent.path.as_str()).or_insert(next);
            if number == next {
                self.programs.push(is_program(&extent.path));
            }
            let first = extent.sectors.start.0 / range_sectors;
            let end = extent.sectors.end().0.div_ceil(range_sectors).min(self.files.len() as u64);
            for file in self.files.iter_mut().take(end as usize).skip(first as usize).filter(|file| **file == NO_FILE) {
                *file = number;
            }
        }
    }
}

impl Scheme for Optimizer {
    fn foresee(&mut self, view: &View, foresight: &Foresight<'_>) {
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        self.take_files(foresight.files, Self::range_sectors(places, view));
    }

    fn arrived(&mut self, view: &View, access: &Access) {
        if access.kind == OpKind::WriteZeroes {
            return;
        }
        self.streams.note(access.kind, access.sectors);
        let contiguous = self.streams.length(access.kind, access.sectors) > access.sectors.len.bytes();
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        for range in places.range_of(access.blocks.first)..=places.range_of(Block(access.blocks.end() - 1)) {
            let counts = &mut self.counts[range as usize];
            counts.accesses = counts.accesses.saturating_add(1);
            counts.contiguous = counts.contiguous.saturating_add(u32::from(contiguous));
        }
        self.counted = true;
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        [self.move_at(view), self.run_at(view)].into_iter().flatten().min()
    }

    fn work(&mut self, view: &View) -> Work {
        self.note_moved(view);
        if self.run_at(view).is_some_and(|at| at <= view.now) {
            self.next_run = self.repeat.then(|| view.now.saturating_add(self.period));
            self.optimize(view.layout.places.as_ref().expect("a strategy moves ranges between places"));
            if self.strategy == Strategy::Type {
                // What a file is does not change.
                self.next_run = None;
            }
        }
        if self.move_at(view).is_none_or(|at| at > view.now) {
            return Work::Nothing;
        }
        self.next_move(view).map_or(Work::Nothing, |(range, to)| Work::Relocate { range, to })
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        if key == "idle" {
            self.idle = settings.duration(key).unwrap_or(Nanoseconds::MAX);
        }
        Ok(key == "idle")
    }
}

#[cfg(test)]
mod tests {
    use super::is_program;
    use crate::operation::OpKind;
    use crate::scheme::{FileExtent, Foresight};
    use crate::testing::Bench;
    use crate::units::{Nanoseconds, SectorRange};

    #[test]
    fn low_addresses_lie_on_the_ssd_and_high_ones_on_the_hdd() {
        let mut bench = Bench::new("combo", &[]);
        let boundary = bench.blocks_on(0);
        bench.request(OpKind::Write, boundary * 8 - 8, 16);
        assert_eq!(bench.take_log(), ["ssd write 8", "hdd write 8"]);
        bench.request(OpKind::Read, 0, 8);
        assert_eq!(bench.take_log(), ["ssd read 8"]);
    }

    const RANGE: (&str, &str) = ("range", "64KiB");
    /// A range far out on the HDD.
    const FAR: u64 = 80_000 / 128 * 128;

    fn where_is(bench: &mut Bench, sector: u64) -> String {
        bench.take_log();
        bench.request(OpKind::Read, sector, 8);
        bench.take_log().concat().split(' ').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_most_frequently_used_ranges_move_to_the_ssd() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "frequency"), ("period", "10s")]);
        assert_eq!(where_is(&mut bench, FAR), "hdd");
        bench.request(OpKind::Write, FAR + 8, 8);
        bench.request(OpKind::Read, FAR + 12800, 8);
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!(where_is(&mut bench, FAR), "ssd");
        assert_eq!(where_is(&mut bench, FAR + 12800), "hdd", "used once");
        assert_eq!(bench.volume.statistics().relocated_ranges, 2, "an exchange");
    }

    /// "Move files that are randomly accessed to the SSD, [...] files that are both randomly and contiguously accessed to the HDD."
    #[test]
    fn what_is_accessed_randomly_moves_to_the_ssd_and_what_is_not_does_not() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "access"), ("period", "10s")]);
        (0..8).for_each(|at| bench.request(OpKind::Read, FAR + at * 8, 8));
        (0..4).for_each(|at| bench.request(OpKind::Read, FAR + 12800 + at * 16, 8));
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!(where_is(&mut bench, FAR), "hdd", "contiguous after its first access");
        assert_eq!(where_is(&mut bench, FAR + 12800), "ssd");
    }

    #[test]
    fn programs_and_libraries_move_to_the_ssd_and_unlisted_types_do_not() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "type"), ("period", "10s")]);
        let file = |path: &str, start| FileExtent { path: path.into(), sectors: SectorRange::new(start, 128) };
        let files = [file("usr/bin/ls", FAR), file("home/film.wmv", FAR + 1280), file("lib/libc.so.6", FAR + 2560)];
        bench.volume.foresee(&Foresight { requests: 0, files: &files });
        bench.pass(Nanoseconds::from_seconds(11));
        let places: Vec<_> = [FAR, FAR + 1280, FAR + 2560].map(|sector| where_is(&mut bench, sector)).into();
        assert_eq!(places, ["ssd", "hdd", "ssd"]);
    }

    #[test]
    fn types_are_those_of_table_1_and_their_like() {
        for path in
            ["C:/Windows/explorer.EXE", "a.dll", "usr/lib/libm.so", "usr/lib/libm.so.6", "usr/sbin/cron", "x.jar"]
        {
            assert!(is_program(path), "{path}");
        }
        for path in ["a.jpg", "a.pdf", "home/bin", "b.java", "notes", "bin/readme.txt", "etc/so"] {
            assert!(!is_program(path), "{path}");
        }
    }

    #[test]
    fn a_file_moves_as_a_whole_and_its_parts_alone_when_refined() {
        for (refine, expected) in [("off", "ssd"), ("on", "hdd")] {
            let settings = [RANGE, ("strategy", "frequency"), ("period", "10s"), ("refine", refine)];
            let mut bench = Bench::new("combo", &settings);
            let files = [FileExtent { path: "data".into(), sectors: SectorRange::new(FAR, 512) }];
            bench.volume.foresee(&Foresight { requests: 0, files: &files });
            (0..4).for_each(|_| bench.request(OpKind::Read, FAR, 8));
            bench.pass(Nanoseconds::from_seconds(11));
            assert_eq!(where_is(&mut bench, FAR), "ssd");
            assert_eq!(where_is(&mut bench, FAR + 256), expected, "the part that nobody read");
        }
    }

    #[test]
    fn an_optimizer_that_is_not_repeated_is_applied_once() {
        let settings = [RANGE, ("strategy", "frequency"), ("period", "10s"), ("repeat", "off")];
        let mut bench = Bench::new("combo", &settings);
        for far in [FAR, FAR + 12800] {
            (0..4).for_each(|_| bench.request(OpKind::Read, far, 8));
            bench.pass(Nanoseconds::from_seconds(11));
        }
        assert_eq!(bench.volume.statistics().relocated_ranges, 2);
    }
}
