//! Files of a file system, sorted by the strategies of Combo Drive's section 3.1: the drive on
//! which each file belongs, and the drive on which it lies now.
//!
//! The scheme `combo` applies the same strategies to ranges while it runs. This module applies the
//! strategies once, to files at rest, by their names and by a trace of their device.
//! [`placement`](crate::placement) searches for a better answer by simulation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use bimetal_core::operation::OpKind;
use bimetal_core::policies::streams::Streams;
use bimetal_core::schemes::combo;
use bimetal_core::settings::{SettingError, Settings};
use bimetal_core::units::{Bytes, SECTOR_BYTES};
use bimetal_trace::Request;
use bimetal_trace::file_system::PlacedFile;
use serde::Serialize;

/// Property by which a file belongs on the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The file is an executable or a library.
    Type,
    /// The file is accessed randomly.
    Access,
    /// The file is accessed often.
    Frequency,
    /// The file is on a list.
    List,
}

/// Drive on which a file lies or belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The SSD.
    Ssd,
    /// The HDD.
    Hdd,
    /// The file has a part on each drive.
    Mixed,
}

/// State of a file: one of the six states of Combo Drive's section 3.1. A file with one range on
/// the device is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The file has no range on the device, so it cannot move.
    Undefined,
    /// The file is contiguous, on the SSD.
    SsdContiguous,
    /// The file has several ranges, all on the SSD.
    SsdFragmented,
    /// The file is contiguous, on the HDD.
    HddContiguous,
    /// The file has several ranges, all on the HDD.
    HddFragmented,
    /// On both drives.
    Mixed,
}

impl State {
    /// Returns the state of a file that lies on `now` in `extents` ranges.
    fn of(now: Option<Place>, extents: usize) -> Self {
        match (now, extents) {
            (None, _) => Self::Undefined,
            (Some(Place::Ssd), 1) => Self::SsdContiguous,
            (Some(Place::Ssd), _) => Self::SsdFragmented,
            (Some(Place::Hdd), 1) => Self::HddContiguous,
            (Some(Place::Hdd), _) => Self::HddFragmented,
            (Some(Place::Mixed), _) => Self::Mixed,
        }
    }
}

/// Number of accesses to a file, and number of contiguous accesses among them (see
/// [`Counter::count`]).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Uses {
    /// All accesses.
    pub accesses: u64,
    /// Contiguous accesses.
    pub contiguous: u64,
}

/// A file with the results for this file.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    /// Path of the file.
    pub path: &'a str,
    /// Number of bytes on the device.
    pub bytes: u64,
    /// Number of extents.
    pub extents: usize,
    /// True for an executable or a library.
    pub program: bool,
    /// Accesses, if a trace was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<Uses>,
    /// Drive on which the file lies now, if the size of the SSD is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Place>,
    /// State of the file, if the size of the SSD is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Drive on which the file belongs; null if the file has no extent on the device.
    pub belongs: Option<Place>,
}

/// Number of files, and number of their bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Number of files.
    pub files: u64,
    /// Number of bytes on the device.
    pub bytes: u64,
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {}", self.files, Bytes(self.bytes))
    }
}

/// Totals of the files by the drive on which they belong.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// All files.
    pub all: Total,
    /// Files that belong on the SSD.
    pub to_ssd: Total,
    /// Files that belong on the HDD.
    pub to_hdd: Total,
    /// Files without an extent on the device.
    pub undefined: Total,
    /// Files of `to_ssd` that do not lie on the SSD in full now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to_ssd: Option<Total>,
    /// Files of `to_hdd` that do not lie on the HDD in full now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to_hdd: Option<Total>,
}

/// Totals of the files by their states.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct States {
    /// Files in the state [`State::Undefined`].
    pub undefined: Total,
    /// Files in the state [`State::SsdContiguous`].
    pub ssd_contiguous: Total,
    /// Files in the state [`State::SsdFragmented`].
    pub ssd_fragmented: Total,
    /// Files in the state [`State::HddContiguous`].
    pub hdd_contiguous: Total,
    /// Files in the state [`State::HddFragmented`].
    pub hdd_fragmented: Total,
    /// Files in the state [`State::Mixed`].
    pub mixed: Total,
}

impl States {
    /// Returns the totals of `entries`; `None` if the size of the SSD is not known.
    pub fn of(entries: &[Entry<'_>]) -> Option<Self> {
        let mut states = Self::default();
        for entry in entries {
            let total = match entry.state? {
                State::Undefined => &mut states.undefined,
                State::SsdContiguous => &mut states.ssd_contiguous,
                State::SsdFragmented => &mut states.ssd_fragmented,
                State::HddContiguous => &mut states.hdd_contiguous,
                State::HddFragmented => &mut states.hdd_fragmented,
                State::Mixed => &mut states.mixed,
            };
            *total = Total { files: total.files + 1, bytes: total.bytes + entry.bytes };
        }
        Some(states)
    }
}

/// Rule by which a file belongs on the SSD: the strategy and its two parameters, or a list.
pub struct Rule {
    strategy: Strategy,
    random: f64,
    frequent: u64,
    /// Line of each listed file, by inode number.
    lines: HashMap<u64, u32>,
}

impl Rule {
    /// Returns the rule of `strategy` with the parameters `random` and `frequent` of the scheme
    /// `combo` in `pairs`.
    ///
    /// # Errors
    /// Fails if a value is not possible.
    pub fn new<'a>(
        strategy: Strategy,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingError> {
        let settings = Settings::new(combo::INFO.name, combo::INFO.parameters, pairs)?;
        let combo::Parameters { random, frequent, .. } = combo::Parameters::of(&settings);
        Ok(Self { strategy, random: random.0, frequent, lines: HashMap::new() })
    }

    /// Returns the rule of a list: the line of each listed file, by inode number. The files in the
    /// first lines come first.
    pub fn of_list(lines: HashMap<u64, u32>) -> Self {
        Self { strategy: Strategy::List, random: 0.0, frequent: 0, lines }
    }

    /// Returns the numbers of the files that belong on the SSD, the most wanted first, for an SSD
    /// of any size.
    pub fn order(&self, files: &[PlacedFile], uses: Option<&[Uses]>) -> Vec<usize> {
        let uses_of = |number: usize| uses.map(|uses| uses[number]).unwrap_or_default();
        let placed = files.iter().enumerate().filter(|(_, file)| !file.extents.is_empty());
        let merit = |(number, file)| Some((self.merit(file, uses_of(number))?, number));
        let mut wanted: Vec<(u64, usize)> = placed.filter_map(merit).collect();
        wanted.sort_by_key(|&(merit, number)| (Reverse(merit), number));
        wanted.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns each file with the drive on which it belongs. `uses` has the accesses to each file,
    /// if a trace was counted. An SSD of `ssd_bytes` is filled with the most accessed files first.
    /// The first `ssd_bytes` of the device count as the present SSD.
    pub fn decide<'a>(&self, files: &'a [PlacedFile], uses: Option<&[Uses]>, ssd_bytes: Option<u64>) -> Vec<Entry<'a>> {
        let uses_of = |number: usize| uses.map(|uses| uses[number]);
        let mut room = ssd_bytes.unwrap_or(u64::MAX);
        let mut on_ssd = vec![false; files.len()];
        for number in self.order(files, uses) {
            // A file that does not fit any more stays on the HDD; a smaller, less wanted file may
            // still fit.
            if let Some(left) = room.checked_sub(files[number].bytes()) {
                room = left;
                on_ssd[number] = true;
            }
        }
        let entry = |(number, file): (usize, &'a PlacedFile)| Entry {
            state: ssd_bytes.map(|boundary| State::of(place_now(file, boundary), file.extents.len())),
            path: &file.path,
            bytes: file.bytes(),
            extents: file.extents.len(),
            program: file.is_program,
            uses: uses_of(number),
            now: ssd_bytes.and_then(|boundary| place_now(file, boundary)),
            belongs: (!file.extents.is_empty()).then_some(if on_ssd[number] { Place::Ssd } else { Place::Hdd }),
        };
        files.iter().enumerate().map(entry).collect()
    }

    /// Returns the number by which wanted files are ranked: accesses, or the lines of a list from
    /// the last on. `None` for a file that does not belong on the SSD.
    fn merit(&self, file: &PlacedFile, uses: Uses) -> Option<u64> {
        let random = (uses.accesses - uses.contiguous) as f64 >= self.random * uses.accesses as f64;
        let wanted = match self.strategy {
            Strategy::Type => file.is_program,
            Strategy::Access => uses.accesses > 0 && random,
            Strategy::Frequency => uses.accesses >= self.frequent,
            Strategy::List => return self.lines.get(&file.inode).map(|&line| u64::MAX - u64::from(line)),
        };
        wanted.then_some(uses.accesses)
    }
}

/// Counter of the accesses of a trace to each file.
pub struct Counter {
    /// First byte, end and file of each extent, in order. The ranges lie apart.
    ranges: Vec<(u64, u64, usize)>,
    /// Bytes of each file in the ranges.
    bytes: Vec<u64>,
    streams: Streams,
    /// Accesses to each file so far.
    pub uses: Vec<Uses>,
}

impl Counter {
    /// Returns a counter that has seen no access to `files`. Bytes that several files share belong
    /// to the file whose extent begins first, as in a map of files.
    pub fn new(files: &[PlacedFile]) -> Self {
        let mut ranges: Vec<(u64, u64, usize)> = Vec::new();
        for (number, file) in files.iter().enumerate() {
            ranges.extend(file.extents.iter().map(|&(start, length)| (start, start + length, number)));
        }
        ranges.sort_unstable();
        let mut end_before = 0;
        ranges.retain_mut(|(start, end, _)| {
            *start = (*start).max(end_before);
            end_before = end_before.max(*end);
            start < end
        });
        // A request finds its first range by the ends of the ranges, which must be in order.
        assert!(ranges.is_sorted_by(|one, next| one.1 <= next.0), "the ranges of files overlap");
        let mut bytes = vec![0; files.len()];
        ranges.iter().for_each(|&(start, end, file)| bytes[file] += end - start);
        Self { ranges, bytes, streams: Streams::default(), uses: vec![Uses::default(); files.len()] }
    }

    /// Counts a request for each file that it touches, and returns true if it touches a file. An
    /// access is contiguous if the request continues another request, or if it covers the whole
    /// file.
    pub fn count(&mut self, request: &Request) -> bool {
        if !matches!(request.kind, OpKind::Read | OpKind::Write) {
            return false;
        }
        self.streams.note(request.kind, request.range);
        let contiguous = self.streams.length(request.kind, request.range) > request.range.len.bytes();
        let (start, end) = (request.range.start.0 * SECTOR_BYTES, request.range.end().0 * SECTOR_BYTES);
        let first = self.ranges.partition_point(|&(_, range_end, _)| range_end <= start);
        let mut touched: BTreeMap<usize, u64> = BTreeMap::new();
        for &(from, to, file) in self.ranges[first..].iter().take_while(|&&(from, ..)| from < end) {
            *touched.entry(file).or_default() += to.min(end) - from.max(start);
        }
        for (&file, &part) in &touched {
            self.uses[file].accesses += 1;
            self.uses[file].contiguous += u64::from(contiguous || part == self.bytes[file]);
        }
        !touched.is_empty()
    }
}

/// Returns the drive on which a file lies when the SSD is the first `boundary` bytes.
fn place_now(file: &PlacedFile, boundary: u64) -> Option<Place> {
    let on_ssd = |&(start, length): &(u64, u64)| boundary.saturating_sub(start).min(length);
    let low: u64 = file.extents.iter().map(on_ssd).sum();
    match (file.bytes(), low) {
        (0, _) => None,
        (_, 0) => Some(Place::Hdd),
        (all, low) if low == all => Some(Place::Ssd),
        _ => Some(Place::Mixed),
    }
}

impl Totals {
    /// Returns the totals of `entries`; `place_is_known` is set if the entries have the drives on
    /// which the files lie now.
    pub fn of(entries: &[Entry<'_>], place_is_known: bool) -> Self {
        let sum = |counts: &dyn Fn(&Entry<'_>) -> bool| {
            entries.iter().filter(|entry| counts(entry)).fold(Total::default(), |total, entry| Total {
                files: total.files + 1,
                bytes: total.bytes + entry.bytes,
            })
        };
        let to = |place| sum(&|entry| entry.belongs == Some(place));
        let moved =
            |place| place_is_known.then(|| sum(&|entry| entry.belongs == Some(place) && entry.now != entry.belongs));
        Self {
            all: sum(&|_| true),
            to_ssd: to(Place::Ssd),
            to_hdd: to(Place::Hdd),
            undefined: sum(&|entry| entry.belongs.is_none()),
            move_to_ssd: moved(Place::Ssd),
            move_to_hdd: moved(Place::Hdd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    fn file(path: &str, extents: &[(u64, u64)]) -> PlacedFile {
        PlacedFile {
            path: path.into(),
            inode: path.len() as u64,
            born: 0,
            extents: extents.to_vec(),
            is_program: combo::is_program(path),
        }
    }

    fn belongs(strategy: Strategy, files: &[PlacedFile], uses: &[Uses], ssd: Option<u64>) -> Vec<Option<Place>> {
        let rule = Rule { strategy, random: 0.9, frequent: 2, lines: HashMap::new() };
        rule.decide(files, Some(uses), ssd).iter().map(|entry| entry.belongs).collect()
    }

    const SSD: Option<Place> = Some(Place::Ssd);
    const HDD: Option<Place> = Some(Place::Hdd);

    #[test]
    fn each_strategy_sends_to_the_ssd_what_it_says() {
        let files = [file("bin/ls", &[(0, 4096)]), file("film.wmv", &[(8192, 4096)]), file("empty.so", &[])];
        let uses = [(1, 0), (8, 7), (0, 0)].map(|(accesses, contiguous)| Uses { accesses, contiguous });
        assert_eq!(belongs(Strategy::Type, &files, &uses, None), [SSD, HDD, None]);
        assert_eq!(belongs(Strategy::Access, &files, &uses, None), [SSD, HDD, None]);
        assert_eq!(belongs(Strategy::Frequency, &files, &uses, None), [HDD, SSD, None]);
    }

    #[test]
    fn a_full_ssd_takes_what_is_used_most() {
        let files = [file("a", &[(0, 4096)]), file("b", &[(8192, 8192)]), file("c", &[(65_536, 4096)])];
        let uses = [2, 9, 5].map(|accesses| Uses { accesses, contiguous: 0 });
        assert_eq!(belongs(Strategy::Frequency, &files, &uses, Some(12_288)), [HDD, SSD, SSD]);
        assert_eq!(
            belongs(Strategy::Frequency, &files, &uses, Some(8000)),
            [HDD, HDD, SSD],
            "what does not fit is left out"
        );
    }

    #[test]
    fn a_file_lies_where_its_ranges_lie() {
        let places = [&[(0, 4096)][..], &[(4096, 8192)], &[(0, 4096), (65_536, 4096)], &[(65_536, 1)], &[]]
            .map(|extents| place_now(&file("x", extents), 8192));
        assert_eq!(places, [SSD, Some(Place::Mixed), Some(Place::Mixed), HDD, None]);
    }

    #[test]
    fn listed_files_belong_on_the_ssd_in_order_of_lines() {
        let files = [file("a", &[(0, 4096)]), file("bb", &[(8192, 8192)]), file("ccc", &[(65_536, 4096)])];
        let rule = Rule::of_list(HashMap::from([(3, 0), (2, 1)]));
        assert_eq!(rule.order(&files, None), [2, 1]);
        let belongs: Vec<_> = rule.decide(&files, None, Some(8192)).iter().map(|entry| entry.belongs).collect();
        assert_eq!(belongs, [HDD, HDD, SSD], "the second line does not fit");
    }

    #[test]
    fn each_file_is_in_one_of_six_states() {
        let files = [
            file("a", &[]),
            file("b", &[(0, 4096)]),
            file("c", &[(4096, 1024), (6144, 512)]),
            file("d", &[(8192, 4096)]),
            file("e", &[(16_384, 4096), (32_768, 4096)]),
            file("f", &[(7168, 2048)]),
        ];
        let rule = Rule::of_list(HashMap::new());
        let entries = rule.decide(&files, None, Some(8192));
        let states: Vec<State> = entries.iter().filter_map(|entry| entry.state).collect();
        assert_eq!(
            states,
            [
                State::Undefined,
                State::SsdContiguous,
                State::SsdFragmented,
                State::HddContiguous,
                State::HddFragmented,
                State::Mixed
            ]
        );
        let totals = States::of(&entries).expect("the size of the SSD is known");
        assert_eq!((totals.hdd_fragmented.files, totals.hdd_fragmented.bytes), (1, 8192));
        assert_eq!(States::of(&rule.decide(&files, None, None)), None);
    }

    /// Regression: a long range that a short range overlapped lost the accesses after the short
    /// range.
    #[test]
    fn shared_bytes_belong_to_one_file_and_no_access_is_lost() {
        let files = [file("a", &[(0, 16_384)]), file("b", &[(4096, 4096), (12_288, 8192)])];
        let mut counter = Counter::new(&files);
        let mut access = |start: u64, sectors: u64| {
            let (range, kind) = (SectorRange::new(start, sectors), OpKind::Read);
            counter.count(&Request { arrival: Nanoseconds(0), device: 0, kind, fua: false, range, response: None })
        };
        assert!(access(8, 8) && access(16, 8) && access(26, 2));
        assert!(access(32, 8), "the second file has this range alone");
        assert!(!access(40, 8));
        assert_eq!(counter.uses, [(3, 1), (1, 1)].map(|(accesses, contiguous)| Uses { accesses, contiguous }));
    }

    #[test]
    fn a_request_is_an_access_to_each_file_that_it_touches() {
        let files = [file("a", &[(0, 4096), (16_384, 4096)]), file("b", &[(4096, 4096)])];
        let mut counter = Counter::new(&files);
        let mut access = |start: u64, sectors: u64| {
            let range = SectorRange::new(start, sectors);
            let kind = OpKind::Read;
            let request = Request { arrival: Nanoseconds(0), device: 0, kind, fua: false, range, response: None };
            counter.count(&request)
        };
        assert!(access(0, 8) && access(8, 1) && access(7, 3) && access(39, 2));
        assert!(!access(16, 16) && !access(40, 8));
        assert!(access(8, 8), "the second file whole");
        assert_eq!(counter.uses, [(3, 0), (3, 2)].map(|(accesses, contiguous)| Uses { accesses, contiguous }));
    }
}
