//! Claims of Konanki's thesis.
//!
//! Our choices, where the thesis leaves something open:
//! - Konanki's figures 5.9 to 5.11 played recorded traces. Tables 5.3 and 5.4 give their sizes and
//!   their randomness, and only writes count in these figures; so writes are generated, over 1 GiB,
//!   the size of the stick. The tables give no times: the requests are played one after another.
//!   The tables do not say how far apart the addresses lie. Over 64 GiB the disk has longer seeks,
//!   and the flash is as fast as before.
//! - The thesis's tables give neither the number of requests nor the number under way at a time.
//!   Three and six numbers are tried. If the verdicts differ, the claim is undecided.
//! - The disk is the Cheetah 15K.5 of the thesis's section 5.2. The flash is the stick of section
//!   5.3 with 256 MiB, written in place as in section 4.2.

mod figures;

use bimetal_core::units::Bytes;
use bimetal_sim::results::Run;
use bimetal_sim::simulator::Replay;
use bimetal_trace::synthetic::{Generator, WorkloadSpec};
use rayon::prelude::*;

use super::{ExperimentsError, Note, Plan, Tried, Values, decide, tried};
use crate::claims::{Paper, Unit};
use crate::traces::Loaded;
use crate::wear_levelling::{STICK, erases_of_blocks};

pub(super) use figures::figures;

const DISK: &str = "seagate-cheetah-15k.5-73gb";

/// Numbers of generated requests.
const REQUESTS: [u64; 3] = [5_000, 10_000, 20_000];

/// The addresses of generated requests: as many as the stick has, or nearly all of the disk.
const OF_STICK: Bytes = Bytes::from_gib(1);
const OF_DISK: Bytes = Bytes::from_gib(64);

/// Numbers of requests under way at a time, of which the tables say nothing either.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// A workload of tables 5.3 and 5.4.
struct Table {
    /// Shares of requests of up to 16, 32, 64, 128, 256, 512 and 1024 sectors.
    sizes: [f64; 7],
    randomness: f64,
}

const FIREFOX: Table = Table { sizes: [0.62, 0.10, 0.10, 0.12, 0.04, 0.01, 0.01], randomness: 0.847 };
const DIA: Table = Table { sizes: [0.77, 0.06, 0.04, 0.13, 0.0, 0.0, 0.0], randomness: 0.813 };
const MP3: Table = Table { sizes: [0.17, 0.0, 0.0, 0.08, 0.02, 0.08, 0.65], randomness: 0.275 };

impl Table {
    fn requests(&self, number: u64, footprint: Bytes) -> Result<Loaded, ExperimentsError> {
        let sizes = (0..).zip(self.sizes).filter(|(_, share)| *share > 0.0);
        let sizes: Vec<String> = sizes.map(|(power, share)| format!("{}KiB:{share}", 8_u64 << power)).collect();
        let spec = WorkloadSpec {
            read_fraction: 0.0,
            size: sizes.join(",").parse()?,
            sequential: 1.0 - self.randomness,
            ..WorkloadSpec::new(number, footprint)
        };
        Ok(Loaded::generated(Generator::new(&[spec], 1)?.collect()))
    }
}

pub(super) fn measure() -> Result<Values, ExperimentsError> {
    let mut values = Values::new();
    wear(&mut values)?;
    for (table, disk, hybrid, gain) in [
        (FIREFOX, "konanki-firefox-disk", "konanki-firefox-anand", "konanki-firefox-gain"),
        (DIA, "konanki-dia-disk", "konanki-dia-anand", "konanki-dia-loss"),
    ] {
        let pairs = each_number(&table, |trace| {
            Ok([within_10_ms(&self::disk(trace, 1)?), within_10_ms(&self::hybrid(trace, 1)?)])
        })?;
        let queued = queued(&table, disk, OF_STICK)?;
        let spread = self::queued(&table, disk, OF_DISK)?;
        let (disks, each) = queued.beside(pairs.map(|[disk, _]| disk));
        decide(&mut values, disk, &disks, &each, Vec::new())?;
        decide(&mut values, hybrid, &pairs.map(|[_, hybrid]| Some(hybrid)), EACH, Vec::new())?;
        let nearest = vec![queued.gain(""), spread.gain(" and addresses over 64 GiB of the disk's 73 GB")];
        decide(&mut values, gain, &pairs.map(|[disk, hybrid]| Some(hybrid - disk)), EACH, nearest)?;
    }
    let large = each_number(&MP3, |trace| {
        // A large request has 128 blocks.
        let large = hybrid(trace, 1)?.bypass.get("large").copied().unwrap_or_default() as f64 / 128.0;
        Ok(large / trace.requests.len() as f64)
    })?;
    decide(&mut values, "konanki-mp3-large", &large.map(Some), EACH, Vec::new())?;
    Ok(values)
}

/// Measures a workload with each number of requests.
fn each_number<T: Send>(
    table: &Table,
    measure: impl Fn(&Loaded) -> Result<T, ExperimentsError> + Sync,
) -> Result<[T; 3], ExperimentsError> {
    let measure = &measure;
    let [few, more, most] = REQUESTS.map(|number| move || measure(&table.requests(number, OF_STICK)?));
    let (most, (more, few)) = rayon::join(most, || (more(), few()));
    Ok([few?, more?, most?])
}

/// Text for the values with each number of requests.
const EACH: &str = "with 5,000, 10,000, 20,000 requests, one after another";

/// Shares within 10 ms with several requests queued, which the tables leave open.
struct Queued {
    /// Shares of the disk, for each number of [`DEPTHS`].
    disk: Vec<f64>,
    /// Position of the share that comes nearest to the paper's.
    nearest: usize,
    /// Share of the hybrid with the nearest number.
    hybrid: f64,
}

/// Measures the share within 10 ms with several requests queued over `footprint`, for the claim
/// `name` about the disk.
fn queued(table: &Table, name: &str, footprint: Bytes) -> Result<Queued, ExperimentsError> {
    let claim = Paper::Konanki.claims().iter().find(|claim| claim.name == name);
    let paper = claim.ok_or_else(|| ExperimentsError::NoFigure(name.to_owned()))?.expected.number();
    let trace = table.requests(REQUESTS[1], footprint)?;
    let shares = DEPTHS.par_iter().with_max_len(1).map(|depth| Ok(within_10_ms(&disk(&trace, *depth)?)));
    let disk: Vec<f64> = shares.collect::<Result<_, ExperimentsError>>()?;
    let nearest = nearest(&disk, paper);
    let hybrid = within_10_ms(&hybrid(&trace, DEPTHS[nearest])?);
    Ok(Queued { disk, nearest, hybrid })
}

impl Queued {
    /// Returns the shares of the disk with several requests queued, beside `alone`, those with each
    /// number of requests; and text for all of the shares.
    fn beside(&self, alone: [f64; 3]) -> (Vec<Option<f64>>, String) {
        let queued = self.disk.iter().copied().skip(1);
        let all = alone.into_iter().chain(queued).map(Some).collect();
        (all, format!("{EACH}, and with 2, 4, 8, 16, 32 of 10,000 requests queued"))
    }

    /// Returns the difference between hybrid and disk with the nearest number of queued requests.
    /// `besides` names another change.
    fn gain(&self, besides: &str) -> Tried {
        let (depth, disk) = (DEPTHS[self.nearest], self.disk[self.nearest]);
        let text = format!(
            "with {depth} requests queued{besides}, a number fitted to the thesis's share of the disk: {} on the disk, \
             {} on the hybrid",
            Unit::Share.text(disk),
            Unit::Share.text(self.hybrid)
        );
        tried(text, Some(self.hybrid - disk))
    }
}

/// Returns the position of the share that is nearest to `wanted`.
fn nearest(shares: &[f64], wanted: f64) -> usize {
    let distances = shares.iter().map(|share| (share - wanted).abs()).enumerate();
    distances.min_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(at, _)| at)
}

fn disk(trace: &Loaded, depth: u32) -> Result<Run, ExperimentsError> {
    Plan::new("hdd-only").hdd(DISK).play(trace, Replay::Closed { depth })
}

fn hybrid(trace: &Loaded, depth: u32) -> Result<Run, ExperimentsError> {
    hybrid_on("anand").play(trace, Replay::Closed { depth })
}

/// Returns the plan of a hybrid disk whose flash has the layer `ftl`.
fn hybrid_on(ftl: &str) -> Plan {
    let settings = [("in_place", "on"), ("ssd.ftl", ftl)];
    Plan::new("hybrid-disk").ssd(STICK).ssd_size(Bytes::from_mib(256)).hdd(DISK).set(&settings)
}

/// Returns the share of the requests that took at most 10 ms.
fn within_10_ms(run: &Run) -> f64 {
    let cdf = &run.series.response_time_cdf.all;
    let within = cdf.ms.iter().zip(&cdf.requests).take_while(|(ms, _)| **ms <= 10.0).last();
    let all = cdf.requests.last().copied().unwrap_or(1) as f64;
    within.map_or(0.0, |(_, requests)| *requests as f64 / all)
}

/// Measures Konanki's figures 5.7 and 5.8.
fn wear(values: &mut Values) -> Result<(), ExperimentsError> {
    let once = |ftl| -> Result<Option<f64>, ExperimentsError> {
        Ok(erases_of_blocks(ftl, 1, 1)?.last_key_value().map(|(erases, _)| f64::from(*erases)))
    };
    values.note("konanki-once-anand", once("anand")?)?;
    values.note("konanki-once-fmax", once("fmax")?)?;
    values.note("konanki-once-page", once("page-in-place")?)?;
    let share = |ftl, erased| -> Result<Option<f64>, ExperimentsError> {
        let blocks = erases_of_blocks(ftl, 15, 1)?;
        let all = blocks.values().sum::<u64>() as f64;
        Ok(Some(blocks.get(&erased).map_or(0.0, |blocks| *blocks as f64 / all)))
    };
    values.note("konanki-wear-anand", share("anand", 1)?)?;
    values.note("konanki-wear-fmax", share("fmax", 2)?)?;
    values.note("konanki-wear-log-block", share("log-block", 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_depth_is_below_or_above_the_share() {
        assert_eq!(nearest(&[1.0, 0.8, 0.33], 0.3), 2);
        assert_eq!(nearest(&[1.0, 0.8, 0.33], 0.92), 0);
    }

    /// The tables leave the queue open, and it decides: on the thesis's disk every request of
    /// Firefox takes less than 10 ms, until many wait.
    #[test]
    fn queued_requests_decide_the_share_within_10_ms() {
        let queued = queued(&FIREFOX, "konanki-firefox-disk", OF_STICK).unwrap();
        assert!(queued.disk[0] == 1.0 && DEPTHS[queued.nearest] == 32, "{:?}", queued.disk);
        let (all, each) = queued.beside([1.0; 3]);
        let mut values = Values::new();
        decide(&mut values, "konanki-firefox-disk", &all, &each, Vec::new()).unwrap();
        assert!(all.len() == 8 && values["konanki-firefox-disk"].ours.is_none(), "{values:?}");
    }

    /// Over 1 GiB the disk's seeks are so short that the hybrid completes less than the disk within
    /// 10 ms.
    #[test]
    fn hybrid_is_ahead_of_the_disk_over_the_whole_disk_alone() {
        let gain = |footprint| {
            let queued = queued(&FIREFOX, "konanki-firefox-disk", footprint).unwrap();
            queued.hybrid - queued.disk[queued.nearest]
        };
        assert!(gain(OF_STICK) < -0.2 && gain(OF_DISK) > 0.1, "{} {}", gain(OF_STICK), gain(OF_DISK));
    }
}
