//! The search for a placement of files by simulation. The search is the "model-based optimizer" of
//! Combo Drive's section 3.2. That optimizer searches "for files and sectors with a potential for
//! improving overall system performance when moved using a detailed model".
//!
//! A placement is a list of files that are to lie on the SSD of a `combo`. The score of a placement
//! is the mean response time of a simulation with these files on the SSD. Ranges change their home
//! before the first request and cost nothing (`strategy=list moves=instant`). Moved bytes are
//! counted in both directions: the range that moves to the SSD, and the range that it is exchanged
//! for.
//!
//! The search begins with the best of the paper's three strategies and leaves out files without
//! accesses. The search continues greedily: it adds the files with the largest gain per moved byte
//! first. A second search begins with no file, and the better of both results is kept. Gains are
//! simulated, at first for each candidate alone. After the first round only the best candidate is
//! simulated anew (lazy evaluation, Minoux 1978): the gain of a file seldom grows when other files
//! are on the SSD already. Moved bytes and simulations are bounded. Files that lie in the same
//! ranges move together, so they are one candidate.
//!
//! A placement may fit the requests of the search better than other requests of the same kind. So
//! the search uses the first part of a trace, and the second part of the trace is used to judge the
//! search's result.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};

use bimetal_core::operation::OpKind;
use bimetal_core::policies::file_map::FileMap;
use bimetal_core::policies::streams::Streams;
use bimetal_core::schemes::combo::{self, USE_SHIFT};
use bimetal_core::settings::Settings;
use bimetal_core::units::{Bytes, SECTOR_BYTES};
use bimetal_trace::Request;
use rayon::prelude::*;

use crate::experiment::{Experiment, ExperimentError, NoProgress};
use crate::results::Run;
use crate::setup::{Choices, Size, settings_for};
use crate::simulator::Replay;

/// Settings of a search for a placement.
pub struct Search<'a> {
    /// Requests of one device, in order.
    pub requests: &'a [Request],
    /// Drives, sizes, settings of the `combo`, and the map of files.
    pub choices: Choices,
    /// Mode of the replay: by the times of the requests, or with a fixed number of requests under
    /// way.
    pub replay: Replay,
    /// Share of the requests that the search uses. The other requests are used to judge its result.
    pub share: f64,
    /// Largest number of bytes that a placement may move; `None` stands for the size of the SSD.
    pub moved_max: Option<Bytes>,
    /// Largest number of simulations that the search may make.
    pub simulations_max: u32,
    /// Function that receives the number of simulations made so far.
    pub progress: &'a (dyn Fn(u32) + Sync),
}

/// Score of a placement, from a simulation of some requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// Mean response time of all requests of the simulation.
    pub mean_ms: f64,
    /// Bytes moved for the placement.
    pub moved: Bytes,
}

/// A placement with its scores.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Name of the placement: `none`, a strategy, or `search`.
    pub name: &'static str,
    /// Paths of the files that are to lie on the SSD, the most wanted first.
    pub files: Vec<String>,
    /// Score with the requests of the search.
    pub searched: Score,
    /// Score with the requests that the search did not use.
    pub held_out: Score,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// Placements in this order: `none`, `type`, `access`, `frequency`, `search`.
    pub placements: Vec<Placement>,
    /// Number of simulations made.
    pub simulations: u32,
    /// Number of requests that the search used, and number of requests that were held out.
    pub requests: [u64; 2],
    /// Largest number of bytes that a placement was allowed to move.
    pub moved_max: Bytes,
    /// Run over all requests without any move.
    pub unmoved: Box<Run>,
}

/// Reasons for which a search fails.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// A simulation fails.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The trace has several devices, whose addresses belong to several file systems.
    #[error("the trace has requests of several devices, and a map of files describes one device: expected --device N")]
    Devices,
    /// Either the search or the judgement of its result has no requests.
    #[error(
        "{searched} requests for the search and {held_out} for the test of its result: expected some for \
         each (--search)"
    )]
    NoRequests {
        /// Number of requests in the first part, for the search.
        searched: usize,
        /// Number of requests in the second part, held out.
        held_out: usize,
    },
    /// No request touches a file.
    #[error(
        "no request of the first part touches a file of the map: expected a map of the file system on the trace's device"
    )]
    NoFiles,
}

/// A file of the map of files, with its use by the requests of the search.
#[derive(Default)]
struct File<'a> {
    path: &'a str,
    sectors: u64,
    /// Numbers of the ranges that hold a part of the file.
    ranges: BTreeSet<u64>,
    accesses: u64,
    contiguous: u64,
}

impl File<'_> {
    /// Returns the accesses per sector, scaled so that files can be compared.
    fn merit(&self) -> u64 {
        (self.accesses << USE_SHIFT) / self.sectors.max(1)
    }
}

/// Simulates placements, which are lists of file numbers.
struct Judge<'a> {
    search: &'a Search<'a>,
    choices: Choices,
    /// File of each extent in the map of files of the choices; `None` for free space.
    file_of: Vec<Option<usize>>,
    simulations: AtomicU32,
}

impl Judge<'_> {
    fn run(&self, requests: &Vec<Request>, list: &[usize]) -> Result<Run, ExperimentError> {
        let lines: HashMap<usize, u32> = list.iter().copied().zip(0..).collect();
        let mut choices = self.choices.clone();
        for (extent, file) in choices.files.iter_mut().zip(&self.file_of) {
            extent.listed = file.and_then(|file| lines.get(&file).copied());
        }
        let (schemes, trees, replay) = (vec![(&combo::INFO).into()], Vec::new(), self.search.replay);
        let experiment = Experiment { workload: requests, schemes, trees, choices, replay, warmup: 0.0, keep: None };
        let mut document = experiment.run(&NoProgress, |_, summary| summary)?;
        let made = self.simulations.fetch_add(1, Ordering::Relaxed) + 1;
        (self.search.progress)(made);
        Ok(document.runs.swap_remove(0))
    }

    fn score(&self, requests: &Vec<Request>, list: &[usize]) -> Result<Score, ExperimentError> {
        let run = self.run(requests, list)?;
        let moved = Bytes(run.migration.bytes.unwrap_or(0));
        Ok(Score { mean_ms: run.response_time_ms.all.mean.unwrap_or(0.0), moved })
    }

    /// Returns the number of simulations that may be made before their total reaches `all`.
    fn left(&self, all: u32) -> u32 {
        all.saturating_sub(self.simulations.load(Ordering::Relaxed))
    }

    /// Returns the longest beginning of `list` that moves no more than `moved_max`, with its score.
    fn fit(&self, part: &Vec<Request>, mut list: Vec<usize>, moved_max: Bytes) -> Result<State, ExperimentError> {
        let mut score = self.score(part, &list)?;
        if score.moved <= moved_max {
            return Ok(State { list, score });
        }
        let (mut fits, mut too_many) = (0, list.len());
        while too_many - fits > 1 {
            let middle = usize::midpoint(fits, too_many);
            let of_middle = self.score(part, &list[..middle])?;
            if of_middle.moved <= moved_max {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        list.truncate(fits);
        score = self.score(part, &list)?;
        Ok(State { list, score })
    }
}

/// A placement to which the search adds files.
#[derive(Clone)]
struct State {
    list: Vec<usize>,
    score: Score,
}

/// Files that move together, with the gain that their last simulation found.
struct Candidate {
    files: Vec<usize>,
    score: Score,
    /// Gain in milliseconds per moved byte.
    rate: f64,
    /// Number of additions to the placement before the last simulation of this candidate.
    seen: usize,
}

impl Search<'_> {
    /// Searches for a placement, and judges it together with the paper's three strategies.
    ///
    /// # Errors
    /// Fails if a simulation fails, if either part has no requests, or if no request touches a
    /// file. Fails as well if the trace has several devices.
    pub fn run(self) -> Result<Found, PlacementError> {
        let [part, held_out] = self.parts()?;
        let mut choices = self.choices.clone();
        let ours = |key: &str| ["strategy", "moves"].contains(&key.strip_prefix("combo.").unwrap_or(key));
        choices.settings.retain(|(key, _)| !ours(key));
        choices.settings.extend(
            [("strategy", "list"), ("moves", "instant")]
                .map(|(key, value)| (format!("{}.{key}", combo::INFO.name), value.to_owned())),
        );
        let settings = settings_for(&combo::INFO, &choices).map_err(ExperimentError::from)?;
        let (files, file_of) = files_of(&self.choices, &settings, &part);
        if files.iter().all(|file| file.accesses == 0) {
            return Err(PlacementError::NoFiles);
        }
        let mut judge = Judge { search: &self, choices, file_of, simulations: AtomicU32::new(0) };
        // Both parts of the trace are played on drives of the same size.
        let unmoved = judge.run(&self.requests.to_vec(), &[])?;
        judge.choices.ssd.size = unmoved.ssd_bytes.map(|bytes| Size::Bytes(Bytes(bytes)));
        judge.choices.hdd.size = unmoved.hdd_bytes.map(|bytes| Size::Bytes(Bytes(bytes)));
        let moved_max = self.moved_max.unwrap_or(Bytes(unmoved.ssd_bytes.unwrap_or(0)));

        let mut states = vec![("none", State { score: judge.score(&part, &[])?, list: Vec::new() })];
        for (name, list) in strategies(&files, &settings) {
            states.push((name, judge.fit(&part, list, moved_max)?));
        }
        let best = states.iter().min_by(|(_, one), (_, other)| one.score.mean_ms.total_cmp(&other.score.mean_ms));
        let start = best.map_or_else(|| states[0].1.clone(), |(_, state)| state.clone());
        let mut found = judge.improve(&part, &files, start, moved_max, self.simulations_max / 2)?;
        // The moves of a strategy may leave no bytes for files with larger gains. So the second
        // search begins with nothing.
        let from_none = judge.improve(&part, &files, states[0].1.clone(), moved_max, self.simulations_max)?;
        if from_none.score.mean_ms < found.score.mean_ms {
            found = from_none;
        }
        states.push(("search", found));

        let judged = states.into_par_iter().map(|(name, State { list, score })| {
            let held_out = judge.score(&held_out, &list)?;
            let files = list.iter().map(|&file| files[file].path.to_owned()).collect();
            Ok(Placement { name, files, searched: score, held_out })
        });
        let placements = judged.collect::<Result<Vec<_>, ExperimentError>>()?;
        let requests = [part.len() as u64, held_out.len() as u64];
        let simulations = judge.simulations.load(Ordering::Relaxed);
        Ok(Found { placements, simulations, requests, moved_max, unmoved: Box::new(unmoved) })
    }

    /// Returns the requests of the search, and the requests that are held out. The times of each
    /// part begin at zero.
    fn parts(&self) -> Result<[Vec<Request>; 2], PlacementError> {
        let first_device = self.requests.first().map(|request| request.device);
        if self.requests.iter().any(|request| Some(request.device) != first_device) {
            return Err(PlacementError::Devices);
        }
        let searched = (self.requests.len() as f64 * self.share) as usize;
        let (part, held_out) = self.requests.split_at(searched.min(self.requests.len()));
        if part.is_empty() || held_out.is_empty() {
            return Err(PlacementError::NoRequests { searched: part.len(), held_out: held_out.len() });
        }
        Ok([part, held_out].map(|requests| {
            let begin = requests[0].arrival;
            let moved = |request: &Request| Request { arrival: request.arrival.saturating_sub(begin), ..*request };
            requests.iter().map(moved).collect()
        }))
    }
}

/// Returns the files of the map of files, with their use by `requests`, and the file of each
/// extent.
fn files_of<'a>(
    choices: &'a Choices,
    settings: &Settings,
    requests: &[Request],
) -> (Vec<File<'a>>, Vec<Option<usize>>) {
    let range_sectors = (combo::Parameters::of(settings).range.0 / SECTOR_BYTES).max(1);
    let (mut files, mut numbers, mut file_of) = (Vec::<File<'_>>::new(), HashMap::new(), Vec::new());
    for extent in &choices.files {
        if extent.path.is_empty() {
            file_of.push(None);
            continue;
        }
        let number = *numbers.entry(extent.path.as_str()).or_insert_with(|| {
            files.push(File { path: &extent.path, ..File::default() });
            files.len() - 1
        });
        let (start, end) = (extent.sectors.start.0, extent.sectors.end().0);
        files[number].sectors += end - start;
        files[number].ranges.extend(start / range_sectors..end.div_ceil(range_sectors));
        file_of.push(Some(number));
    }
    // The map of files numbers its files in the same order.
    let map = FileMap::new(&choices.files, |_| 0);
    let mut streams = Streams::default();
    for request in requests.iter().filter(|request| matches!(request.kind, OpKind::Read | OpKind::Write)) {
        streams.note(request.kind, request.range);
        let continues = streams.length(request.kind, request.range) > request.range.len.bytes();
        for (file, is_whole) in map.touched(request.range) {
            let file = &mut files[file as usize];
            file.accesses += 1;
            file.contiguous += u64::from(continues || is_whole);
        }
    }
    (files, file_of)
}

/// Returns the files that each of the paper's three strategies puts on the SSD. The files with the
/// most accesses for their size come first.
fn strategies(files: &[File<'_>], settings: &Settings) -> [(&'static str, Vec<usize>); 3] {
    let combo::Parameters { random, frequent, .. } = combo::Parameters::of(settings);
    let (random, frequent) = (random.0, frequent.max(1));
    let is_random = |file: &File<'_>| (file.accesses - file.contiguous) as f64 >= random * file.accesses as f64;
    let list = |wanted: &dyn Fn(&File<'_>) -> bool| {
        let mut list: Vec<usize> = (0..files.len()).filter(|&file| wanted(&files[file])).collect();
        list.sort_by_key(|&file| (Reverse(files[file].merit()), file));
        list
    };
    [
        ("type", list(&|file| combo::is_program(file.path))),
        ("access", list(&|file| file.accesses > 0 && is_random(file))),
        ("frequency", list(&|file| file.accesses >= frequent)),
    ]
}

impl Judge<'_> {
    /// Leaves out files without accesses, and adds the candidates with the largest gain per moved
    /// byte. The search ends when no candidate has a gain, or when `all` simulations were made.
    fn improve(
        &self,
        part: &Vec<Request>,
        files: &[File<'_>],
        mut now: State,
        moved_max: Bytes,
        all: u32,
    ) -> Result<State, ExperimentError> {
        let used: Vec<usize> = now.list.iter().copied().filter(|&file| files[file].accesses > 0).collect();
        if used.len() < now.list.len() && self.left(all) > 0 {
            let score = self.score(part, &used)?;
            if score.mean_ms <= now.score.mean_ms {
                now = State { list: used, score };
            }
        }
        let mut candidates = self.first_look(part, files, &now, moved_max, self.left(all) / 2)?;
        let mut additions = 0;
        while let Some(best) = best_of(&candidates) {
            if candidates[best].seen == additions {
                let Candidate { files, score, .. } = candidates.swap_remove(best);
                now.list.extend(files);
                now.score = score;
                additions += 1;
                continue;
            }
            if self.left(all) == 0 {
                break;
            }
            let candidate = &candidates[best];
            let list: Vec<usize> = now.list.iter().chain(&candidate.files).copied().collect();
            let score = self.score(part, &list)?;
            let files = candidates.swap_remove(best).files;
            candidates.extend(Candidate::new(files, score, &now.score, moved_max, additions));
        }
        Ok(now)
    }

    /// Simulates the gain of each candidate alone, for at most `candidates` candidates: those with
    /// the most accesses for their size.
    fn first_look(
        &self,
        part: &Vec<Request>,
        files: &[File<'_>],
        now: &State,
        moved_max: Bytes,
        candidates: u32,
    ) -> Result<Vec<Candidate>, ExperimentError> {
        let there: BTreeSet<u64> = now.list.iter().flat_map(|&file| files[file].ranges.iter().copied()).collect();
        let mut used: Vec<usize> = (0..files.len()).filter(|&file| files[file].accesses > 0).collect();
        used.sort_by_key(|&file| (Reverse(files[file].merit()), file));
        let mut together: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
        for file in used.into_iter().filter(|file| !now.list.contains(file)) {
            let new: Vec<u64> = files[file].ranges.difference(&there).copied().collect();
            if !new.is_empty() {
                together.entry(new).or_default().push(file);
            }
        }
        let mut groups: Vec<(u64, Vec<usize>)> = together
            .into_iter()
            .map(|(ranges, group)| {
                let accesses: u64 = group.iter().map(|&file| files[file].accesses).sum();
                ((accesses << USE_SHIFT) / ranges.len() as u64, group)
            })
            .collect();
        groups.sort_by_key(|(merit, group)| (Reverse(*merit), group[0]));
        groups.truncate(candidates as usize);
        let looked = groups.into_par_iter().map(|(_, group)| {
            let list: Vec<usize> = now.list.iter().chain(&group).copied().collect();
            let score = self.score(part, &list)?;
            Ok(Candidate::new(group, score, &now.score, moved_max, 0))
        });
        let looked = looked.collect::<Result<Vec<_>, ExperimentError>>()?;
        Ok(looked.into_iter().flatten().collect())
    }
}

/// Returns the candidate with the largest gain per byte. Among equal candidates, the candidate with
/// the lowest first file is returned.
fn best_of(candidates: &[Candidate]) -> Option<usize> {
    let order = |&at: &usize| &candidates[at];
    (0..candidates.len()).max_by(|one, other| {
        let (one, other) = (order(one), order(other));
        one.rate.total_cmp(&other.rate).then(other.files[0].cmp(&one.files[0]))
    })
}

impl Candidate {
    /// Returns a candidate, unless it has no gain over `before`, moves no bytes or moves too many
    /// bytes.
    fn new(files: Vec<usize>, score: Score, before: &Score, moved_max: Bytes, seen: usize) -> Option<Self> {
        let (gain, moved) = (before.mean_ms - score.mean_ms, score.moved.0.saturating_sub(before.moved.0));
        (gain > 0.0 && moved > 0 && score.moved <= moved_max).then(|| Self {
            files,
            score,
            rate: gain / moved as f64,
            seen,
        })
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::scheme::FileExtent;
    use bimetal_core::units::{Nanoseconds, SectorRange};

    use super::*;
    use crate::setup::DriveChoice;

    const MIB: u64 = 2048;

    /// Returns files of 1 MiB each, far out on the disk, with free space at the low addresses.
    fn map(files: u64) -> Vec<FileExtent> {
        let extent =
            |path: String, start, len| FileExtent { path, sectors: SectorRange::new(start, len), listed: None };
        let file = |number: u64| extent(format!("f{number:02}"), (512 + number) * MIB, MIB);
        (0..files).map(file).chain([extent(String::new(), 0, 64 * MIB)]).collect()
    }

    /// Returns scattered reads of 4 KiB. The `n`th file is read `n` times in each of two rounds.
    fn reads(files: u64) -> Vec<Request> {
        let mut reads: Vec<(u64, u64)> = (0..files).flat_map(|file| (0..file).map(move |at| (file, at))).collect();
        reads.sort_by_key(|&(file, at)| (file * 7 + at * 31) % 101);
        let round = |number: u64| {
            let reads = reads.clone();
            let count = reads.len() as u64;
            reads.into_iter().zip(0..).map(move |((file, at), place)| Request {
                arrival: Nanoseconds::from_millis(40 * (number * count + place)),
                device: 0,
                kind: OpKind::Read,
                fua: false,
                range: SectorRange::new((512 + file) * MIB + (at * 37 % 250) * 8, 8),
                response: None,
            })
        };
        (0..2).flat_map(round).collect()
    }

    fn search(requests: &[Request], moved_max: u64, simulations_max: u32, share: f64) -> Result<Found, PlacementError> {
        let choices = Choices {
            ssd: DriveChoice { profile: None, size: Some(Size::Bytes(Bytes::from_mib(64))) },
            settings: vec![("combo.frequent".to_owned(), "9999".to_owned())],
            files: map(16),
            ..Choices::default()
        };
        let (replay, moved_max) = (Replay::Timed { speedup: 1.0 }, Some(Bytes::from_mib(moved_max)));
        Search { requests, choices, replay, share, moved_max, simulations_max, progress: &|_| {} }.run()
    }

    /// The strategies `type` and `frequency` select no file in this case. The strategy `access`
    /// selects all files but one, and fills the allowed bytes in another order than the search.
    #[test]
    fn search_finds_what_gains_most_within_its_bounds() {
        let requests = reads(16);
        let found = search(&requests, 6, 100, 0.5).unwrap();
        let [none, of_type, access, frequency, best] = &found.placements[..] else { panic!("five placements") };
        assert_eq!([none.files.len(), of_type.files.len(), frequency.files.len()], [0, 0, 0]);
        assert_eq!(best.files.len(), 3, "three exchanges of two: {:?}", best.files);
        for placement in &found.placements {
            assert!(placement.searched.moved <= Bytes::from_mib(6), "{placement:?}");
            assert!(best.searched.mean_ms <= placement.searched.mean_ms, "{placement:?}");
        }
        assert!(best.held_out.mean_ms < none.held_out.mean_ms && access.held_out.mean_ms < none.held_out.mean_ms);
        assert_eq!(found.placements[4].files, search(&requests, 6, 100, 0.5).unwrap().placements[4].files);
    }

    #[test]
    fn search_with_more_to_move_gains_more() {
        let requests = reads(16);
        let means: Vec<f64> =
            [2, 8, 32].map(|mib| search(&requests, mib, 200, 0.5).unwrap().placements[4].searched.mean_ms).into();
        assert!(means.is_sorted_by(|one, next| one > next), "{means:?}");
    }

    #[test]
    fn simulations_of_a_search_are_bounded() {
        let requests = reads(16);
        let found = search(&requests, 32, 20, 0.5).unwrap();
        // The final judgement of the five placements is not bounded.
        assert!(found.simulations <= 20 + 5, "{}", found.simulations);
    }

    #[test]
    fn search_needs_requests_on_both_sides_and_files() {
        let requests = reads(16);
        assert!(matches!(search(&requests, 6, 9, 1.0), Err(PlacementError::NoRequests { held_out: 0, .. })));
        assert!(matches!(search(&requests, 6, 9, 0.0), Err(PlacementError::NoRequests { searched: 0, .. })));
        let elsewhere: Vec<Request> =
            requests.iter().map(|request| Request { range: SectorRange::new(8, 8), ..*request }).collect();
        assert!(matches!(search(&elsewhere, 6, 9, 0.5), Err(PlacementError::NoFiles)));
        let mut devices = requests;
        devices[3].device = 1;
        assert!(matches!(search(&devices, 6, 9, 0.5), Err(PlacementError::Devices)));
    }
}
