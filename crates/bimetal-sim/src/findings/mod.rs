//! Findings that a reader of the figures needs first: sentences above the table, each with its
//! cause and its remedy. Each rule for a finding is a file.

mod bursts;
mod cold_start;
mod faster_device;
mod flushes;
mod holds_everything;
mod life_of_short_trace;
mod loss_of_data;
mod maybe_queue_events;
mod misaligned;
mod no_accesses;
mod no_choice;
mod no_responses;
mod no_times;
mod of_trace;
mod part_of_addresses;
mod part_of_disk;
mod partial_blocks;
mod queue_events;
mod saturated;
mod shingled;
mod slower_than_disk;
mod timers;
mod volatile_cache;
mod warm_up;
mod whole_seconds;

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::units::Bytes;
pub use faster_device::{FASTER_DEVICE, answered_by_faster_device};
pub(crate) use holds_everything::is_cache;
pub use maybe_queue_events::MAYBE_QUEUE_EVENTS;
pub use no_choice::NoChoice;
pub use of_trace::OfTrace;
pub use part_of_addresses::{depends_on_place, is_part};
use serde::Serialize;
pub use timers::{MeasuredPart, puts_off_all_work};
pub use volatile_cache::{answers_before_stable, volatile_caches};

use crate::results::Run;
use crate::simulator::Replay;
use crate::survey::Survey;

/// Fact that qualifies the figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Finding {
    /// Name for scripts.
    pub id: String,
    /// Severity: `note` or `warning`.
    pub severity: String,
    /// Sentence for the reader.
    pub text: String,
    /// Advice to the reader.
    pub remedy: Option<String>,
    /// Part of the run or of the trace that is affected, from 0 to 1.
    pub share: Option<f64>,
}

impl Finding {
    fn new(id: &str, severity: &str, text: String, remedy: &str, share: Option<f64>) -> Self {
        Self { id: id.to_owned(), severity: severity.to_owned(), text, remedy: Some(remedy.to_owned()), share }
    }

    /// Returns the line above a table.
    pub fn line(&self) -> String {
        format!("{}: {}", self.severity, self.advice())
    }

    /// Returns the sentence with its remedy.
    pub fn advice(&self) -> String {
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!(" ({remedy})"));
        format!("{}{remedy}", self.text)
    }
}

/// Returns a size as text, in the largest binary unit that it reaches.
fn size(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|&(unit, _)| bytes >= unit);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit as f64))
}

/// Returns the findings about a trace and the runs over it, on volumes that must hold `capacity`:
/// first what concerns all runs.
pub fn of(survey: &Survey, runs: &[Run], block: BlockSize, replay: Replay, capacity: Bytes) -> Vec<Finding> {
    let replay = replay_of(survey, replay);
    let of_trace = [
        no_accesses::of(survey),
        no_times::of(survey),
        misaligned::of(survey, block),
        partial_blocks::of(survey, block),
        maybe_queue_events::of(survey),
        cold_start::of(survey, runs),
    ];
    let mut findings: Vec<Finding> = of_trace.into_iter().flatten().collect();
    findings.extend(holds_everything::of(survey, runs, block));
    match replay {
        Replay::Timed { .. } => {
            findings.extend(faster_device::of(survey, runs));
            findings.extend(timers::of(survey, runs, replay));
            findings.extend(bursts::of(survey, runs, replay));
            findings.extend(life_of_short_trace::of(survey, runs));
        }
        Replay::Think { .. } => {
            findings.extend(no_responses::of(survey));
            findings.extend(timers::of(survey, runs, replay));
            findings.extend(life_of_short_trace::of(survey, runs));
        }
        Replay::Closed { .. } => {}
    }
    findings.extend(part_of_addresses::of(runs, capacity, address_end(survey)));
    findings.extend(part_of_disk::of(runs, capacity, address_end(survey)));
    findings.extend(shingled::of(runs));
    findings.extend(volatile_cache::of(survey, runs));
    findings.extend(flushes::of(survey, runs));
    findings.extend(saturated::of(runs, replay));
    findings.extend(slower_than_disk::of(runs));
    findings.extend(loss_of_data::of(runs));
    findings
}

/// Kinds of options that were considered beside the chosen option. A finding about such options may
/// be the reason for which they were not chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Considered {
    /// Set if any option had a hard disk: the trace may be of a faster device.
    pub disks: bool,
    /// Set if any option had a cache, which begins empty.
    pub caches: bool,
}

impl Considered {
    /// Adds an option with drives of `roles` under `scheme`.
    pub fn add(&mut self, scheme: &SchemeInfo, roles: impl IntoIterator<Item = Role>) {
        self.caches |= is_cache(scheme);
        self.disks |= roles.into_iter().any(|role| role == Role::Hdd);
    }
}

/// Returns the findings about the choice of one option over a trace: those that concern its
/// figures, and the figures of `considered` options.
pub fn of_choice(survey: &Survey, run: &Run, considered: Considered, block: BlockSize, replay: Replay) -> Vec<Finding> {
    let (runs, replay) = (std::slice::from_ref(run), replay_of(survey, replay));
    let found = [
        no_accesses::of(survey),
        no_times::of(survey),
        misaligned::of(survey, block),
        partial_blocks::of(survey, block),
        cold_start::of_choice(survey).filter(|_| considered.caches || holds_everything::has_cache(run)),
        holds_everything::of_choice(survey, run, block),
        timers::of(survey, runs, replay),
        bursts::of(survey, runs, replay),
        life_of_short_trace::of(survey, runs).filter(|_| !matches!(replay, Replay::Closed { .. })),
        faster_device::of_trace(survey).filter(|_| considered.disks && matches!(replay, Replay::Timed { .. })),
        no_responses::of(survey).filter(|_| matches!(replay, Replay::Think { .. })),
        shingled::of(runs),
        volatile_cache::of(survey, runs),
        saturated::of(runs, replay),
        loss_of_data::of(runs),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the replay that findings go by. Requests that all come at one time say nothing about
/// bursts, queues and timers, like requests that are played one after another.
fn replay_of(survey: &Survey, replay: Replay) -> Replay {
    if survey.is_timeless() { Replay::Closed { depth: 1 } } else { replay }
}

/// Returns the end of the addresses that a trace accesses, over all units laid one after another.
pub fn address_end(survey: &Survey) -> Bytes {
    Bytes(survey.address_end.values().map(|end| end.bytes().0).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run of `scheme` with an SSD of `ssd_bytes`.
    pub(super) fn run(scheme: &str, ssd_bytes: u64) -> Run {
        Run { ssd_bytes: Some(ssd_bytes), ..Run::named(scheme) }
    }

    /// A plan that chose an SSD alone, because disks are slow under the requests of a fast device,
    /// did not tell the reason.
    #[test]
    fn choice_tells_of_a_faster_device_if_disks_were_considered() {
        let survey = Survey { answered_random_reads: 1000, quick_random_reads: 870, ..Survey::default() };
        let ids = |disks, replay| {
            let considered = Considered { disks, caches: false };
            let found = of_choice(&survey, &run("ssd-only", 1 << 30), considered, BlockSize::default(), replay);
            found.into_iter().map(|finding| finding.id).filter(|id| id.starts_with("recorded-on")).collect::<Vec<_>>()
        };
        let (timed, think) = (Replay::Timed { speedup: 1.0 }, Replay::Think { speedup: 1.0 });
        assert_eq!(ids(true, timed), ["recorded-on-faster-device"]);
        assert!(ids(false, timed).is_empty() && ids(true, think).is_empty());
    }

    /// Regression: a plan that chose an SSD alone did not tell that the caches beside it began
    /// empty. Its remedy was `--warmup auto`, which a plan refuses.
    #[test]
    fn choice_tells_of_cold_caches_that_were_considered() {
        let survey = Survey { read_blocks: 200, first_read_blocks: 150, ..Survey::default() };
        let found = |schemes: &[&str], chosen: &str| {
            let mut considered = Considered::default();
            for scheme in schemes {
                considered.add(bimetal_core::schemes::find(scheme).unwrap(), [Role::Ssd]);
            }
            let timed = Replay::Timed { speedup: 1.0 };
            let all = of_choice(&survey, &run(chosen, 1 << 20), considered, BlockSize::default(), timed);
            all.into_iter().find(|finding| finding.id == "cold-start")
        };
        let remedy = found(&["ssd-only", "bcache"], "ssd-only").and_then(|finding| finding.remedy).unwrap();
        assert!(remedy.contains("--warmup 0.5") && !remedy.contains("auto"), "{remedy}");
        assert_eq!(found(&["ssd-only", "combo"], "ssd-only"), None);
        assert!(found(&[], "bcache").is_some());
    }

    #[test]
    fn choice_tells_of_a_burst_larger_than_its_ssd() {
        let survey = Survey { burst_bytes: Bytes(1 << 30), ..Survey::default() };
        let is_told = |ssd_bytes, replay| {
            let found =
                of_choice(&survey, &run("bcache", ssd_bytes), Considered::default(), BlockSize::default(), replay);
            found.iter().any(|finding| finding.id == "cache-smaller-than-bursts")
        };
        let timed = Replay::Timed { speedup: 1.0 };
        assert!(is_told(1 << 20, timed));
        assert!(!is_told(2 << 30, timed) && !is_told(1 << 20, Replay::Think { speedup: 1.0 }));
    }

    #[test]
    fn plain_trace_has_no_finding() {
        let phases = vec![100, 0, 0, 0, 0, 0, 0, 0];
        let duration = bimetal_core::units::Nanoseconds::from_seconds(3600);
        let survey = Survey {
            phases,
            duration,
            read_blocks: 100,
            first_read_blocks: 20,
            footprint_blocks: 1000,
            ..Survey::default()
        };
        let mut griffin = run("griffin", 1 << 30);
        griffin.settings.insert("timeout".into(), "900s".into());
        let timed = Replay::Timed { speedup: 1.0 };
        assert_eq!(of(&survey, &[griffin, run("smart-response", 1 << 20)], BlockSize::default(), timed, Bytes(0)), []);
    }
}
