//! Disk benchmark of the drives of the Combo Drive paper: its figures 5 and 6.
//!
//! Combo Drive's paper ran HD Tune over the hard disk, two SSDs of 32 GB, and each SSD with the
//! disk behind it (section 5.1). The paper shows the rate of sequential reads and writes by
//! position, and the time of an access by the distance from the previous access. This module
//! measures the models in the same way, through the trait that the simulator uses. The drives are
//! concatenated as in the Combo scheme: addresses up to the SSD's end belong to the SSD, addresses
//! after it to the disk.

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Nanoseconds, SectorRange, Sectors};
use bimetal_models::flash::Precondition;
use bimetal_models::profile::{Profile, ProfileError};
use bimetal_models::{DeviceModel, Finished};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Subject of a measurement, with the paper's figures.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name in the charts.
    pub name: &'static str,
    /// Number of the paper's figure that shows the subject; `None` if no figure shows it.
    pub figure: Option<u32>,
    /// Profiles of the drives, in order of address.
    pub profiles: &'static [&'static str],
    /// Average rates of reads and writes in MB/s in the paper: from section 5.1, or from table 2,
    /// if that table has the rates.
    pub paper_mb_per_s: [(f64, Option<f64>); 2],
    /// Average access time in ms in the paper (Combo Drive, table 2).
    pub paper_access_ms: Option<f64>,
}

impl Subject {
    /// Returns the points of the paper's rates that its text has: positions as shares of the
    /// subject's size, and MB/s. The mean of section 5.1 stands at all positions; the fast edge of
    /// the disk stands where the disk begins.
    pub fn paper_rates(&self, kind: OpKind) -> [Vec<(f64, f64)>; 2] {
        let mean = self.paper_mb_per_s[usize::from(kind == OpKind::Write)].0;
        let begins = match self.profiles {
            [HDD] => Some(0.0),
            [_, HDD] => Some(SSD_GB / (SSD_GB + HDD_GB)),
            _ => None,
        };
        [vec![(0.0, mean), (1.0, mean)], begins.map(|at| (at, FAST_EDGE_MB_PER_S)).into_iter().collect()]
    }
}

/// Sizes of the SSDs and of the disk (Combo Drive, section 5).
const SSD_GB: f64 = 32.0;
const HDD_GB: f64 = 500.0;

/// Rate of the disk at its fast edge in MB/s, of reads and of writes (Combo Drive, section 5.1).
pub const FAST_EDGE_MB_PER_S: f64 = 69.0;

const HDD: &str = "hitachi-travelstar-5k500-500gb";
const SSD1: &str = "combo-ssd1-32gb";
const SSD2: &str = "combo-ssd2-32gb";

/// Drives and concatenations of drives that are measured.
pub const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "HDD",
        figure: None,
        profiles: &[HDD],
        paper_mb_per_s: [(55.0, Some(53.0)), (50.0, Some(53.0))],
        paper_access_ms: Some(18.0),
    },
    Subject {
        name: "SSD1",
        figure: None,
        profiles: &[SSD1],
        paper_mb_per_s: [(62.0, Some(64.2)), (14.0, Some(12.3))],
        paper_access_ms: Some(0.1),
    },
    Subject {
        name: "SSD2",
        figure: None,
        profiles: &[SSD2],
        paper_mb_per_s: [(90.0, Some(109.5)), (70.0, Some(75.3))],
        paper_access_ms: Some(0.1),
    },
    Subject {
        name: "SSD1 + HDD",
        figure: Some(5),
        profiles: &[SSD1, HDD],
        paper_mb_per_s: [(54.0, None), (48.0, None)],
        paper_access_ms: None,
    },
    Subject {
        name: "SSD2 + HDD",
        figure: Some(6),
        profiles: &[SSD2, HDD],
        paper_mb_per_s: [(55.0, None), (50.0, None)],
        paper_access_ms: None,
    },
];

/// Number of positions at which the rate is measured.
const POSITIONS: u64 = 100;
/// Number of sectors in a request of the throughput test: 64 KiB.
const STEP: u64 = 128;
/// Number of requests at each position on the drive. The first half, which fills the write cache,
/// is not counted.
const STEPS: u64 = 1024;
/// Number of accesses of the latency test.
const ACCESSES: u64 = 400;
/// Number of sectors in each access: 4 KiB.
const ACCESS: u64 = 8;

/// Measurement of one subject, of reads or of writes. Positions and distances are shares of the
/// subject's size.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Pairs of position and MB/s.
    pub rates: Vec<(f64, f64)>,
    /// Pairs of distance from the previous access and milliseconds.
    pub accesses: Vec<(f64, f64)>,
}

impl Measured {
    /// Returns the average MB/s over the positions, as HD Tune does.
    pub fn mean_mb_per_s(&self) -> f64 {
        mean(&self.rates)
    }

    /// Returns the average milliseconds of an access over random places, where longer distances are
    /// rarer.
    pub fn mean_access_ms(&self) -> f64 {
        let weights = self.accesses.iter().map(|(distance, _)| 1.0 - distance).sum::<f64>();
        self.accesses.iter().map(|(distance, ms)| (1.0 - distance) * ms).sum::<f64>() / weights
    }
}

fn mean(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
}

/// Measures `subject` with reads or writes.
///
/// # Errors
/// Fails if a profile cannot be built.
pub fn measure(subject: &Subject, kind: OpKind, seed: u64) -> Result<Measured, ProfileError> {
    let rates = rates(&mut Bench::new(subject, None, seed)?, kind);
    // The 18 ms of table 2 imply that the disk's writes went to the medium.
    let accesses = accesses(&mut Bench::new(subject, Some(("write_cache", "off")), seed)?, kind, seed);
    Ok(Measured { rates, accesses })
}

fn rates(bench: &mut Bench, kind: OpKind) -> Vec<(f64, f64)> {
    let span = bench.sectors - STEP * STEPS;
    let mut rates = Vec::new();
    for position in 0..POSITIONS {
        let start = span * position / (POSITIONS - 1) / STEP * STEP;
        let mut begun = bench.now;
        for step in 0..STEPS {
            begun = if step == STEPS / 2 { bench.now } else { begun };
            bench.serve(kind, start + step * STEP, STEP);
        }
        let megabytes = (STEPS / 2 * STEP * 512) as f64 / 1e6;
        rates.push((start as f64 / bench.sectors as f64, megabytes / (bench.now - begun).as_seconds_f64()));
    }
    rates
}

/// Measures pairs of accesses at growing distances.
fn accesses(bench: &mut Bench, kind: OpKind, seed: u64) -> Vec<(f64, f64)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut accesses = Vec::new();
    for access in 1..=ACCESSES {
        let distance = (bench.sectors - ACCESS) * access / ACCESSES / ACCESS * ACCESS;
        let first = random.next_u64() % ((bench.sectors - distance) / ACCESS) * ACCESS;
        let (from, to) = if access % 2 == 0 { (first, first + distance) } else { (first + distance, first) };
        for (last, start) in [(false, from.min(bench.sectors - ACCESS)), (true, to.min(bench.sectors - ACCESS))] {
            let begun = bench.now;
            bench.serve(kind, start, ACCESS);
            if last {
                accesses.push((distance as f64 / bench.sectors as f64, (bench.now - begun).as_millis_f64()));
            }
        }
        bench.now += Nanoseconds(random.next_u64() % 20_000_000);
    }
    accesses
}

/// Concatenated drives that serve one request at a time.
struct Bench {
    drives: Vec<Box<dyn DeviceModel>>,
    sectors: u64,
    now: Nanoseconds,
    finished: Vec<Finished>,
}

impl Bench {
    /// Creates the drives of `subject`, each filled in order; `hdd_setting` is a figure of the disk
    /// that is changed.
    fn new(subject: &Subject, hdd_setting: Option<(&str, &str)>, seed: u64) -> Result<Self, ProfileError> {
        let mut drives = Vec::new();
        for name in subject.profiles {
            let mut profile = Profile::load(name)?;
            profile.set_all(hdd_setting.filter(|_| *name == HDD))?;
            // The drive was written once in order, like a drive with a file system.
            let used = SectorRange { start: Sectors::ZERO, len: profile.capacity };
            drives.push(profile.build_preconditioned(None, Precondition::Sequential, used, seed)?);
        }
        let sectors = drives.iter().map(|drive| drive.capacity().0).sum();
        Ok(Self { drives, sectors, now: Nanoseconds::ZERO, finished: Vec::new() })
    }

    /// Sends a request to the drives that hold its addresses, and waits for its end.
    fn serve(&mut self, kind: OpKind, start: u64, sectors: u64) {
        let (mut first, mut end) = (0, self.now);
        for drive in &mut self.drives {
            let behind = first + drive.capacity().0;
            let (from, to) = (start.max(first), (start + sectors).min(behind));
            if from < to {
                let range = SectorRange::new(from - first, to - from);
                drive.advance(self.now, &mut self.finished);
                self.finished.clear();
                drive.submit(self.now, Token(1), Command { kind, range, fua: false });
                while self.finished.is_empty() {
                    drive.advance(drive.next_event().expect("a request is under way"), &mut self.finished);
                }
                end = end.max(self.finished[0].at);
            }
            first = behind;
        }
        self.now = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_average_is_near_the_papers() {
        for subject in &SUBJECTS {
            for (kind, (text, table)) in [OpKind::Read, OpKind::Write].into_iter().zip(subject.paper_mb_per_s) {
                let measured = measure(subject, kind, 1).unwrap();
                let rate = measured.mean_mb_per_s();
                // The rate must be within a tenth of either place in the paper; these are up to a
                // fifth apart.
                let low = table.map_or(text, |table| table.min(text)) * 0.9;
                let high = table.map_or(text, |table| table.max(text)) * 1.1;
                assert!((low..=high).contains(&rate), "{} {kind:?}: {rate} MB/s, not {low} to {high}", subject.name);
                let access_ms = measured.mean_access_ms();
                let paper_ms = subject.paper_access_ms.unwrap_or(access_ms);
                // The paper's 0.1 ms has one digit.
                assert!(
                    (access_ms - paper_ms).abs() < (0.1 * paper_ms).max(0.1),
                    "{} {kind:?}: {access_ms} ms",
                    subject.name
                );
            }
        }
    }

    #[test]
    fn fast_edge_of_the_paper_stands_where_the_disk_begins() {
        let edges = |at: usize| SUBJECTS[at].paper_rates(OpKind::Read)[1].clone();
        assert_eq!((edges(0), edges(1)), (vec![(0.0, 69.0)], vec![]));
        assert!((edges(3)[0].0 - 0.06).abs() < 0.001, "{:?}", edges(3));
        assert_eq!(SUBJECTS[3].paper_rates(OpKind::Write)[0], [(0.0, 48.0), (1.0, 48.0)]);
    }

    /// The concatenation of drives is fast at the addresses of the SSD. On the HDD, rates fall and
    /// accesses take longer towards the end.
    #[test]
    fn concatenation_is_fast_on_the_ssd_and_slower_inwards() {
        let combo = measure(&SUBJECTS[4], OpKind::Read, 1).unwrap();
        let ssd_share = 32.0 / 532.0;
        let (on_ssd, on_hdd): (Vec<(f64, f64)>, Vec<_>) =
            combo.rates.iter().copied().partition(|point| point.0 < ssd_share * 0.95);
        assert!(on_ssd.len() >= 5 && on_ssd.iter().all(|point| point.1 > 80.0), "{on_ssd:?}");
        assert!(on_hdd[1..].windows(30).all(|pair| pair[29].1 < pair[0].1), "the rate falls inwards: {on_hdd:?}");
        assert!((on_hdd[1].1 / 69.0 - 1.0).abs() < 0.1, "69 MB/s at the fast edge: {}", on_hdd[1].1);
        let hdd = measure(&SUBJECTS[0], OpKind::Read, 1).unwrap();
        let (near, far) = hdd.accesses.split_at(hdd.accesses.len() / 2);
        assert!(mean(near) + 2.0 < mean(far), "{} and {} ms", mean(near), mean(far));
        let ssd = measure(&SUBJECTS[2], OpKind::Read, 1).unwrap();
        assert!(ssd.accesses.iter().all(|point| point.1 < 0.2), "the SSD takes the same everywhere");
    }
}
