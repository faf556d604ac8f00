//! Combo Drive (Payer, Sanvido, Bandic, Kirsch: *Combo Drive*, WISH 2009): SSD and HDD
//! concatenated.
//!
//! Combo Drive, section 2: of n = k + l clusters the SSD holds the lower addresses, 0 to k − 1, and
//! the HDD the higher ones. The drive moves nothing by itself; file systems that prefer low
//! addresses gain at once. No content is held twice, so no drive can stand in for the other drive.
//!
//! The optimizers of Combo Drive's section 3.1 move files. With a map of files, files are counted
//! and chosen, and their extents move. Without a map of files, ranges of addresses of one size are
//! counted and moved.
//! - *Type*, strategy 1: "move executable files and program libraries to the SSD and move the
//!   remaining files to the HDD" (Combo Drive, table 1, and Linux's counterparts).
//! - *Access*, strategy 2: "move files that are randomly accessed to the SSD, move files that are
//!   contiguously accessed to the HDD, and move files that are both randomly and contiguously
//!   accessed to the HDD".
//! - *Frequency*, strategy 3: "move the most frequently used files to the SSD and move all other
//!   files to the HDD".
//! - *List*: the files of a written list, such as the result of a search by simulation (Combo
//!   Drive, section 3.2: "a model-based optimizer"; `bimetal optimize`).
//!
//! The statistics are taken "periodically", and "the optimizer is applied after each period".
//!
//! Addresses that a map of files does not name are *undefined* (the sixth state of the paper's
//! section 3.1); they may be metadata of the file system. Undefined addresses are never moved.
//! Files are exchanged for free space first, as for "other free logical clusters" in the paper,
//! then for files that belong on the HDD. *Type* and *list* need no statistics, and are applied as
//! soon as there is a map of files.
//!
//! Our choices. An access is contiguous if it begins where another access ended, or if it covers a
//! whole file (without a map of files: a range). A file is accessed randomly if at least `random`
//! of its accesses are not contiguous (parameter `random`). A file is frequently used from
//! `frequent` accesses a period on. If not all files fit on the SSD, the files that are accessed
//! most for their size come first.
//!
//! Content leaves the SSD in this order: first contiguously accessed files (strategy 2), then the
//! files used least for their size, and of equal files the larger. Content leaves the SSD only if
//! other content takes its place. A file moves by moving each range in which the file has a part.
//! Each drive has one range to spare, and every move is an exchange: one range leaves the SSD for
//! the HDD's free place, and another range takes its place. A range goes behind the range that
//! precedes it, if the place there is free. Moves begin when the HDD is idle, one at a time.

use std::collections::{BTreeMap, VecDeque};

use crate::bit_set::BitSet;
use crate::block::Block;
use crate::layout::{Layout, MemberId, Role};
use crate::operation::OpKind;
use crate::places::Places;
use crate::policies::file_map::FileMap;
use crate::policies::streams::Streams;
use crate::scheme::{Access, FileExtent, Foresight, Holds, MemberState, Properties, Scheme, SchemeInfo, View, Work};
use crate::settings::{SettingError, Settings, Share, parameters, words};
use crate::units::{Bytes, Nanoseconds, SectorRange};

parameters! {
    /// Parameters of the scheme.
    pub struct Parameters {
        /// content of the SSD; none: the low addresses; type: executables and libraries (strategy
        /// 1, needs a map of files); access: files or ranges accessed randomly (strategy 2);
        /// frequency: files or ranges accessed frequently (strategy 3); list: the files of a list,
        /// the first lines first (needs a map of files)
        strategy: Strategy = "none",
        /// size of the ranges that move (our figure)
        range: Bytes = "1MiB",
        /// time for which accesses are counted before the optimizer is applied (section 3.1.2; our
        /// figure); strategies type and list: applied at once
        period: Nanoseconds = "300s",
        /// on: the optimizer is applied after each period; off: it is applied once
        repeat: bool = "on",
        /// strategy=access: a file or range is random if at least this share of its accesses
        /// continues no other access (our figure)
        random: Share = "0.5",
        /// strategy=frequency: accesses in a period from which on a file or range is frequently
        /// used (our figure)
        frequent: u64 = "2",
        /// on: parts of a file move by their own accesses (section 3.1.2, future work); off: a file
        /// moves as a whole
        refine: bool = "off",
        /// ranges move when no request has used the HDD for this long (our figure)
        idle: Nanoseconds = "100ms" live,
        /// timed: the drives read and write what moves; instant: ranges move at once, without work
        /// for a drive, to show the worth of a placement alone (simulator only)
        moves: Moves = "timed",
    }
}

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "combo",
    summary: "SSD and HDD concatenated, the SSD at the low addresses; a strategy can exchange ranges between the \
              drives by their use",
    source: "Combo Drive (WISH 2009), sections 2 and 3",
    members: &[(Role::Ssd, Holds::Ranges), (Role::Hdd, Holds::Home)],
    parameters: Parameters::LIST,
    worst_crash: "writes that were not flushed, as on the bare drives",
    ssd_loss: "all data that lies on the SSD: the low addresses, or what was moved there",
    hdd_loss: "all data on the HDD; with a strategy, all data",
    bypass: &[],
    memory_bytes_per_block: 0.0,
    takes_only_what_is_accessed: false,
    linux_counterpart: |_| None,
    layout: |settings, request| {
        let homes = [request.only(Role::Ssd)?, request.only(Role::Hdd)?];
        let parameters = Parameters::of(settings);
        if parameters.strategy == Strategy::None {
            return Ok(request.concatenated(&homes)?);
        }
        let range_blocks = parameters.range.0 / request.block.bytes().0;
        // A moving range is held in memory, and requests for it wait.
        if range_blocks == 0 || range_blocks * request.block.bytes().0 > RANGE_MAX.0 {
            return Err(settings.refuse(name::range, format!("a size from a block to {RANGE_MAX}")).into());
        }
        let capacity: Bytes = Bytes(homes.iter().map(|&home| request.capacity_of(home).bytes().0).sum());
        let least = capacity.0.div_ceil(RANGES_MAX);
        if parameters.range.0 < least {
            let expected = format!("at least {} for {capacity}, or strategy=none", Bytes(least.next_power_of_two()));
            return Err(settings.refuse(name::range, expected).into());
        }
        Ok(request.relocatable(&homes, range_blocks)?)
    },
    build,
};

/// Largest number of ranges: the table of their places then takes about 1 GiB. With the default
/// range, drives have 128 TiB together.
const RANGES_MAX: u64 = 1 << 27;
/// File name extensions of programs, from table 1 of the paper, and those that Linux uses.
const EXECUTABLE: &[&str] = &["exe", "dll", "sys", "msi", "cab", "drv", "jar", "so", "ko", "elf", "bin", "a", "o"];
/// Directories in which Linux keeps programs without an extension.
const PROGRAM_DIRECTORIES: &[&str] = &["bin", "sbin", "libexec"];

/// The largest range.
const RANGE_MAX: Bytes = Bytes::from_mib(16);
/// Pause before a failed move is tried again.
const PAUSE: Nanoseconds = Nanoseconds::from_millis(1);
/// Number of tries after which a failed move, and all moves after it, are dropped.
const TRIES: u8 = 100;

/// Smallest period. A shorter period would keep the optimizer running all the time.
const PERIOD_MIN: Nanoseconds = Nanoseconds::from_millis(1);

words! {
    /// Content of the SSD.
    pub enum Strategy {
        /// The low addresses; no content moves.
        None = "none",
        /// Executables and libraries.
        Type = "type",
        /// Content that is accessed randomly.
        Access = "access",
        /// Content that is accessed frequently.
        Frequency = "frequency",
        /// The files of a list.
        List = "list",
    }
}

words! {
    /// Time that a move costs.
    pub enum Moves {
        /// The drives read and write the content that moves.
        Timed = "timed",
        /// No drive works. For the simulator only.
        Untimed = "instant",
    }
}

impl Strategy {
    /// Returns true if the strategy depends on the files themselves, and not on their use.
    fn is_static(self) -> bool {
        matches!(self, Self::Type | Self::List)
    }
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
    instant: bool,
    ssd: MemberId,
    hdd: MemberId,
    streams: Streams,
    /// Number of ranges.
    ranges: u32,
    /// Accesses to the ranges that were accessed in this period.
    counts: BTreeMap<u32, Counts>,
    /// Set once an access was counted in this period of the optimizer.
    counted: bool,
    /// Time at which the optimizer is applied next; `None` if it is not applied again.
    next_run: Option<Nanoseconds>,
    files: Option<Files>,
    /// Ranges still to be moved, and their destinations.
    moves: VecDeque<(u32, MemberId)>,
    /// Number of tries of the first move.
    tries: u8,
    /// Range whose move failed. The next plan leaves the range where it is.
    failed: Option<u32>,
    /// Time from which the first planned change of a home may be tried again.
    not_before: Nanoseconds,
}

/// A map of files, with the accesses to each file.
struct Files {
    map: FileMap,
    counts: Vec<Counts>,
    /// Ranges without undefined parts.
    movable: BitSet,
    /// Ranges that are free.
    free: BitSet,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    accesses: u32,
    contiguous: u32,
}

impl Counts {
    fn note(&mut self, contiguous: bool) {
        self.accesses = self.accesses.saturating_add(1);
        self.contiguous = self.contiguous.saturating_add(u32::from(contiguous));
    }

    fn add(self, other: Self) -> Self {
        let accesses = self.accesses.saturating_add(other.accesses);
        Self { accesses, contiguous: self.contiguous.saturating_add(other.contiguous) }
    }
}

/// Binary logarithm of the number of sectors to which a file's accesses are scaled. Files are
/// compared by accesses for their size, since a large file has more accesses than a small file that
/// is used as much.
pub const USE_SHIFT: u32 = 22;

/// Class of a file that belongs on the SSD under strategy 1. With `strategy=list`, a file's class
/// is its line in the list, counted from 1.
const PROGRAM: u32 = 1;

fn build(settings: &Settings, layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    let parameters = Parameters::of(settings);
    if parameters.strategy == Strategy::None {
        return Ok(Box::new(Combo));
    }
    let places = layout.places.as_ref().expect("a strategy moves ranges between places");
    if parameters.period < PERIOD_MIN {
        return Err(settings.refuse(name::period, format!("at least {PERIOD_MIN}")));
    }
    Ok(Box::new(Optimizer {
        strategy: parameters.strategy,
        period: parameters.period,
        repeat: parameters.repeat,
        random: parameters.random.0,
        frequent: parameters.frequent.clamp(1, u64::from(u32::MAX)) as u32,
        refine: parameters.refine,
        idle: parameters.idle,
        instant: parameters.moves == Moves::Untimed,
        ssd: layout.home[0].member,
        hdd: layout.home[1].member,
        streams: Streams::default(),
        ranges: places.ranges(),
        counts: BTreeMap::new(),
        counted: false,
        next_run: Some(parameters.period),
        files: None,
        moves: VecDeque::new(),
        tries: 0,
        failed: None,
        not_before: Nanoseconds::ZERO,
    }))
}

/// Returns true if table 1 puts a file of this name on the SSD. Types of files that table 1 does
/// not list go to the HDD.
pub fn is_program(path: &str) -> bool {
    let mut parts = path.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let in_program_directory = parts.next().is_some_and(|directory| PROGRAM_DIRECTORIES.contains(&directory));
    // A library's version follows its extension: libc.so.6.
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

    /// Returns true if a file or range with these accesses belongs on the SSD.
    fn is_wanted(&self, counts: Counts) -> bool {
        let random = f64::from(counts.accesses - counts.contiguous) >= self.random * f64::from(counts.accesses);
        match self.strategy {
            Strategy::None | Strategy::Type | Strategy::List => false,
            Strategy::Access => counts.accesses > 0 && random,
            Strategy::Frequency => counts.accesses >= self.frequent,
        }
    }

    /// Returns the ranges that belong on the SSD with their merits, in order of range. Ranges with
    /// a larger merit go to the SSD first.
    fn merits(&self, range_sectors: u64) -> Vec<(u32, u64)> {
        match &self.files {
            Some(files) if !self.refine || self.strategy.is_static() => self.merits_of_files(files, range_sectors),
            _ => {
                let accessed = self.counts.iter();
                let wanted = accessed.filter(|&(&range, &counts)| self.is_wanted(counts) && self.may_move(range));
                wanted.map(|(&range, counts)| (range, u64::from(counts.accesses))).collect()
            }
        }
    }

    /// Returns the ranges of files that belong on the SSD, with their merit.
    fn merits_of_files(&self, files: &Files, range_sectors: u64) -> Vec<(u32, u64)> {
        let mut merits: Vec<(u32, u64)> = Vec::new();
        for (file, part) in files.map.extents() {
            let counts = files.counts[file as usize];
            let class = files.map.class(file);
            let by_class = self.strategy.is_static() && class != 0;
            if !by_class && !self.is_wanted(counts) {
                continue;
            }
            let merit = match self.strategy {
                Strategy::List => u64::from(u32::MAX - class),
                _ => (u64::from(counts.accesses) << USE_SHIFT) / files.map.sectors(file).max(1),
            };
            let first = part.start.0 / range_sectors;
            let end = part.end().0.div_ceil(range_sectors).min(u64::from(self.ranges));
            for range in (first..end).map(|range| range as u32).filter(|&range| self.may_move(range)) {
                match merits.last_mut() {
                    Some((last, most)) if *last == range => *most = merit.max(*most),
                    _ => merits.push((range, merit)),
                }
            }
        }
        merits
    }

    /// Returns true if no part of `range` is undefined.
    fn may_move(&self, range: u32) -> bool {
        self.files.as_ref().is_none_or(|files| files.movable.contains(range))
    }

    fn is_free(&self, range: u32) -> bool {
        self.files.as_ref().is_some_and(|files| files.free.contains(range))
    }

    /// Returns the accesses to all files with a part in `range` and the sectors of these files; or
    /// the accesses to the range itself and its sectors.
    fn counts_of(&self, range: u32, range_sectors: u64) -> (Counts, u64) {
        match &self.files {
            Some(files) if !self.refine => {
                let sectors = SectorRange::new(u64::from(range) * range_sectors, range_sectors);
                let touched = files.map.touched(sectors).into_iter();
                touched.fold((Counts::default(), 0), |(counts, sectors), (file, _)| {
                    (counts.add(files.counts[file as usize]), sectors + files.map.sectors(file))
                })
            }
            _ => (self.counts.get(&range).copied().unwrap_or_default(), range_sectors),
        }
    }

    /// Plans the exchanges that bring wanted ranges to the SSD. If an earlier exchange was never
    /// completed, the HDD is full, and the plan begins with the second half of an exchange.
    fn optimize(&mut self, places: &Places, range_sectors: u64) {
        let failed = self.failed.take();
        let may_move = |optimizer: &Self, range| optimizer.may_move(range) && Some(range) != failed;
        let mut wanted = self.merits(range_sectors);
        wanted.retain(|&(range, _)| may_move(self, range));
        wanted.sort_by_key(|&(range, merit)| (std::cmp::Reverse(merit), range));
        let (_, room) = places.held_by(self.ssd);
        let fixed = match (&self.files, failed) {
            (None, None) => 0,
            _ => places.ranges_on(self.ssd).filter(|&range| !may_move(self, range)).count(),
        };
        wanted.truncate((room as usize - 1).saturating_sub(fixed));
        let comes = wanted.iter().map(|&(range, _)| range).filter(|&range| places.member_of(range) != self.ssd);
        let mut comes = comes.collect::<Vec<u32>>().into_iter();
        self.moves.clear();
        let (held, all) = places.held_by(self.hdd);
        if held == all {
            self.moves.extend(comes.next().map(|come| (come, self.ssd)));
        }
        let mut leaves = Vec::new();
        // A large volume has millions of ranges, and most periods exchange none of them.
        if comes.len() > 0 {
            let mut stays = BitSet::new(places.ranges());
            wanted.iter().for_each(|&(range, _)| _ = stays.insert(range));
            let others = places.ranges_on(self.ssd);
            let others = others.filter(|&range| !stays.contains(range) && may_move(self, range));
            leaves = self.first_to_leave(others, comes.len(), range_sectors);
        }
        for (come, leave) in comes.zip(leaves) {
            self.moves.push_back((leave, self.hdd));
            self.moves.push_back((come, self.ssd));
        }
        self.counts.clear();
        self.files.iter_mut().for_each(|files| files.counts.fill(Counts::default()));
        self.counted = false;
    }

    /// Returns the `most` ranges that leave the SSD first, in order. The SSD may have many more
    /// ranges than are exchanged, so only the first are sorted.
    fn first_to_leave(&self, ranges: impl Iterator<Item = u32>, most: usize, range_sectors: u64) -> Vec<u32> {
        let contiguous = |counts: Counts| if self.strategy == Strategy::Access { counts.contiguous } else { 0 };
        let order = |range: u32| {
            let (counts, sectors) = self.counts_of(range, range_sectors);
            let use_for_size = (u64::from(counts.accesses) << USE_SHIFT) / sectors.max(1);
            let order = (std::cmp::Reverse(contiguous(counts)), use_for_size, std::cmp::Reverse(sectors));
            (!self.is_free(range), order, range)
        };
        let mut ordered: Vec<_> = ranges.map(order).collect();
        if most < ordered.len() {
            ordered.select_nth_unstable(most);
            ordered.truncate(most);
        }
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, _, range)| range).collect()
    }

    fn move_at(&self, view: &View) -> Option<Nanoseconds> {
        let online = view.members.iter().all(|member| member.state == MemberState::Online);
        if self.moves.is_empty() || view.relocating || !online {
            return None;
        }
        if self.instant {
            return Some(view.now);
        }
        Some(view.member(self.hdd).idle_at(self.idle)?.max(self.not_before))
    }

    /// Drops the moves that were made. A move that fails [`TRIES`] times ends the remaining moves,
    /// since moves are exchanges that depend on each other. The next plan leaves out its range.
    fn note_moved(&mut self, view: &View) {
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        while self.moves.front().is_some_and(|&(range, to)| places.member_of(range) == to) {
            self.moves.pop_front();
            self.tries = 0;
        }
        if self.tries == TRIES {
            self.tries = 0;
            self.failed = self.moves.front().map(|&(range, _)| range);
            self.moves.clear();
            self.next_run = self.next_run.or(self.repeat.then(|| view.now.saturating_add(self.period)));
        }
    }

    /// Returns the first move that was not made yet, and counts the try.
    fn next_move(&mut self, view: &View) -> Option<(u32, MemberId)> {
        self.tries += 1;
        self.not_before = view.now.saturating_add(PAUSE);
        self.moves.front().copied()
    }

    fn run_at(&self, view: &View) -> Option<Nanoseconds> {
        let is_static = self.strategy.is_static() && self.files.is_some();
        let wanted = (self.counted || is_static) && self.moves.is_empty() && !view.relocating;
        self.next_run.filter(|_| wanted)
    }

    /// Replaces the map of files; there is no map of files if `files` is empty.
    fn take_files(&mut self, files: &[FileExtent], range_sectors: u64) {
        let map = FileMap::new(files, |extent| match self.strategy {
            Strategy::List => extent.listed.map_or(0, |line| line.saturating_add(1)),
            _ if is_program(&extent.path) => PROGRAM,
            _ => 0,
        });
        // A large volume has millions of ranges.
        self.files = (!map.is_empty()).then(|| {
            let (movable, free) = map.ranges(self.ranges, range_sectors);
            let counts = vec![Counts::default(); map.files()];
            Files { map, counts, movable, free }
        });
    }
}

impl Scheme for Optimizer {
    fn foresee(&mut self, view: &View, foresight: &Foresight<'_>) {
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        self.take_files(foresight.files, Self::range_sectors(places, view));
        if self.strategy.is_static() {
            self.next_run = Some(view.now);
        }
    }

    fn arrived(&mut self, view: &View, access: &Access) {
        if access.kind == OpKind::WriteZeroes {
            return;
        }
        self.streams.note(access.kind, access.sectors);
        let continues = self.streams.length(access.kind, access.sectors) > access.sectors.len.bytes();
        let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
        for range in places.range_of(access.blocks.first)..=places.range_of(Block(access.blocks.end() - 1)) {
            let all = places.blocks(range);
            let is_whole = access.blocks.first <= all.first && access.blocks.end() >= all.end();
            self.counts.entry(range).or_default().note(continues || is_whole);
        }
        if let Some(Files { map, counts, .. }) = &mut self.files {
            for (file, is_whole) in map.touched(access.sectors) {
                counts[file as usize].note(continues || is_whole);
            }
        }
        self.counted = true;
    }

    fn properties(&self) -> Properties {
        Properties { moves_instantly: self.instant, ..Properties::default() }
    }

    fn next_timeout(&self, view: &View) -> Option<Nanoseconds> {
        [self.move_at(view), self.run_at(view)].into_iter().flatten().min()
    }

    fn work(&mut self, view: &View) -> Work {
        self.note_moved(view);
        if self.run_at(view).is_some_and(|at| at <= view.now) {
            self.next_run = self.repeat.then(|| view.now.saturating_add(self.period));
            let places = view.layout.places.as_ref().expect("a strategy moves ranges between places");
            self.optimize(places, Self::range_sectors(places, view));
            if self.strategy.is_static() {
                // A file's type does not change.
                self.next_run = None;
            }
        }
        if self.move_at(view).is_none_or(|at| at > view.now) {
            return Work::Nothing;
        }
        self.next_move(view).map_or(Work::Nothing, |(range, to)| Work::Relocate { range, to })
    }

    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = Parameters::is_live(key);
        if live {
            self.idle = Parameters::of(settings).idle;
        }
        Ok(live)
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
    /// First sector of a range far out on the HDD.
    const FAR: u64 = 80_000 / 128 * 128;

    fn where_is(bench: &mut Bench, sector: u64) -> String {
        bench.take_log();
        bench.request(OpKind::Read, sector, 8);
        bench.take_log().concat().split(' ').next().unwrap_or_default().to_owned()
    }

    fn file(path: &str, start: u64, sectors: u64) -> FileExtent {
        FileExtent { path: path.into(), sectors: SectorRange::new(start, sectors), listed: None }
    }

    /// Gives the optimizer a map of files. Extents without a path are free.
    fn take(bench: &mut Bench, files: &[FileExtent]) {
        bench.volume.foresee(&Foresight { tells_half: false, files });
    }

    /// A regression: metadata of a file system lay low and was in no file. The metadata left the
    /// SSD first, since no access to it had been counted, and a disk became five to eight times as
    /// slow as without an optimizer.
    #[test]
    fn undefined_ranges_stay_and_free_ones_are_exchanged_first() {
        for strategy in ["type", "frequency", "access"] {
            let mut bench = Bench::new("combo", &[RANGE, ("strategy", strategy), ("period", "10s")]);
            // The first four ranges are: undefined in part, a film, free, undefined.
            let low = [file("film.wmv", 0, 64), file("film.wmv", 128, 128), file("", 256, 128)];
            let program = file("bin/ls", FAR, 128);
            take(&mut bench, &[&low[..], std::slice::from_ref(&program)].concat());
            (0..4).for_each(|at| bench.request(OpKind::Read, FAR + at * 16, 8));
            bench.pass(Nanoseconds::from_seconds(11));
            assert_eq!(where_is(&mut bench, FAR), "ssd", "{strategy}");
            let low = [0, 128, 256, 384].map(|sector| where_is(&mut bench, sector));
            assert_eq!(low, ["ssd", "ssd", "hdd", "ssd"], "{strategy}: the free range gave its place");
        }
    }

    #[test]
    fn undefined_range_does_not_come_to_the_ssd() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "frequency"), ("period", "10s")]);
        take(&mut bench, &[file("", 0, 1280), file("data", FAR, 120)]);
        (0..4).for_each(|at| bench.request(OpKind::Read, FAR + at * 16, 8));
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!(where_is(&mut bench, FAR), "hdd", "its last block belongs to nobody");
        assert_eq!(bench.volume.statistics().relocated_ranges, 0);
    }

    /// A regression: a film read in one request of 512 KiB went to the SSD, while a film read in
    /// four requests stayed on the HDD.
    #[test]
    fn file_that_one_request_reads_whole_is_contiguous() {
        for (requests, expected) in [(1, "hdd"), (4, "hdd")] {
            let mut bench = Bench::new("combo", &[RANGE, ("strategy", "access"), ("period", "10s")]);
            take(&mut bench, &[file("", 0, 1280), file("film.wmv", FAR, 256), file("data", FAR + 256, 256)]);
            let sectors = 256 / requests;
            (0..requests).for_each(|at| bench.request(OpKind::Read, FAR + at * sectors, sectors));
            (0..4).for_each(|at| bench.request(OpKind::Read, FAR + 264 + at * 40, 8));
            bench.pass(Nanoseconds::from_seconds(11));
            let places = [FAR, FAR + 256].map(|sector| where_is(&mut bench, sector));
            assert_eq!(places, [expected, "ssd"], "{requests} requests");
        }
    }

    /// Two files share a range, and each is counted by its own accesses.
    #[test]
    fn small_files_in_one_range_are_counted_apart() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "frequency"), ("period", "10s"), ("frequent", "4")]);
        let small = |range: u64| (0..16).map(move |at| file(&format!("{range}/{at}"), FAR + range * 128 + at * 8, 8));
        let files: Vec<FileExtent> = small(0).chain(small(1)).chain([file("", 0, 1280)]).collect();
        take(&mut bench, &files);
        // Two files get three accesses each, and one file gets four.
        (0..3).for_each(|_| [0, 8].iter().for_each(|at| bench.request(OpKind::Read, FAR + at, 8)));
        (0..4).for_each(|_| bench.request(OpKind::Read, FAR + 128 + 64, 8));
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!([FAR, FAR + 128].map(|sector| where_is(&mut bench, sector)), ["hdd", "ssd"]);
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

    /// "Move files that are randomly accessed to the SSD, [...] files that are both randomly and
    /// contiguously accessed to the HDD."
    #[test]
    fn only_randomly_accessed_ranges_move_to_the_ssd() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "access"), ("period", "10s")]);
        (0..8).for_each(|at| bench.request(OpKind::Read, FAR + at * 8, 8));
        (0..4).for_each(|at| bench.request(OpKind::Read, FAR + 12800 + at * 16, 8));
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!(where_is(&mut bench, FAR), "hdd", "contiguous after its first access");
        assert_eq!(where_is(&mut bench, FAR + 12800), "ssd");
    }

    #[test]
    fn only_programs_and_libraries_move_to_the_ssd() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "type"), ("period", "10s")]);
        let far = [
            file("usr/bin/ls", FAR, 128),
            file("home/film.wmv", FAR + 1280, 128),
            file("lib/libc.so.6", FAR + 2560, 128),
        ];
        take(&mut bench, &[&far[..], &[file("", 0, 1280)]].concat());
        bench.pass(Nanoseconds::from_seconds(1));
        let places: Vec<_> = [FAR, FAR + 1280, FAR + 2560].map(|sector| where_is(&mut bench, sector)).into();
        assert_eq!(places, ["ssd", "hdd", "ssd"]);
    }

    /// Combo Drive, section 3.2: the result of a search is written as a list.
    #[test]
    fn files_of_a_list_move_and_its_first_lines_first() {
        let listed = |line, at, sectors| FileExtent { listed: line, ..file(&format!("{at}.so"), at, sectors) };
        let free = file("", 0, 8 * 128);
        let far = [listed(Some(1), FAR, 128), listed(None, FAR + 1280, 128), listed(Some(0), FAR + 2560, 128)];
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "list")]);
        take(&mut bench, &[&far[..], std::slice::from_ref(&free)].concat());
        bench.pass(Nanoseconds::from_seconds(1));
        let places = |bench: &mut Bench| [FAR, FAR + 1280, FAR + 2560].map(|sector| where_is(bench, sector));
        assert_eq!(places(&mut bench), ["ssd", "hdd", "ssd"], "a program that is not listed stays");
        // The file of the first line leaves one range of the SSD, and the file of the second line
        // has two ranges.
        let mut full = Bench::new("combo", &[RANGE, ("strategy", "list")]);
        let room = full.blocks_on(0) * 8;
        let first = listed(Some(0), FAR + 2 * room, room - 128);
        take(&mut full, &[listed(Some(1), FAR, 2 * 128), first, file("", 0, room)]);
        full.pass(Nanoseconds::from_seconds(60));
        assert_eq!([where_is(&mut full, FAR + 2 * room), where_is(&mut full, FAR + 128)], ["ssd", "hdd"]);
    }

    #[test]
    fn instant_moves_need_no_drive() {
        for (moves, drives_work) in [("instant", false), ("timed", true)] {
            let mut bench = Bench::new("combo", &[RANGE, ("strategy", "type"), ("moves", moves)]);
            take(&mut bench, &[file("usr/bin/ls", FAR, 128), file("", 0, 1280)]);
            bench.pass(Nanoseconds::from_seconds(1));
            assert_eq!(bench.take_log().is_empty(), !drives_work, "{moves}");
            assert_eq!(bench.volume.statistics().relocated_ranges, 2, "{moves}: an exchange");
            assert_eq!(where_is(&mut bench, FAR), "ssd", "{moves}");
        }
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
            take(&mut bench, &[file("data", FAR, 512), file("", 0, 2560)]);
            (0..4).for_each(|_| bench.request(OpKind::Read, FAR, 8));
            bench.pass(Nanoseconds::from_seconds(11));
            assert_eq!(where_is(&mut bench, FAR), "ssd");
            assert_eq!(where_is(&mut bench, FAR + 256), expected, "the part that nobody read");
        }
    }

    /// Regression: after one half of an exchange, the HDD had no free place. Each plan began with a
    /// move to the HDD, so no range ever moved again.
    #[test]
    fn exchange_that_failed_in_its_middle_is_completed() {
        let mut bench = Bench::new("combo", &[RANGE, ("strategy", "frequency"), ("period", "10s")]);
        let boundary = bench.blocks_on(0) * 8;
        bench.unreadable = Some((1, SectorRange::new(FAR - boundary, 128)));
        (0..4).for_each(|_| bench.request(OpKind::Write, FAR + 8, 8));
        bench.pass(Nanoseconds::from_seconds(11));
        assert_eq!(bench.volume.statistics().relocated_ranges, 1, "a range left the SSD, and none came");
        (0..4).for_each(|_| bench.request(OpKind::Write, FAR + 8, 8));
        (0..3).for_each(|_| bench.request(OpKind::Read, FAR + 12800, 8));
        bench.pass(Nanoseconds::from_seconds(20));
        assert_eq!(where_is(&mut bench, FAR + 12800), "ssd");
        bench.unreadable = None;
        (0..4).for_each(|_| bench.request(OpKind::Read, FAR, 8));
        bench.pass(Nanoseconds::from_seconds(20));
        assert_eq!(where_is(&mut bench, FAR), "ssd", "the range is left out of one plan only");
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
