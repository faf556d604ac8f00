//! Cost of owning a volume, and the probability that it loses data in a year.
//!
//! A volume is kept for some years. The drives of the volume are bought once, and again when they
//! are worn or fail. The cost includes the energy that the drives use. For each drive of price P,
//! with lifetime L under this load and the share F of drives that fail in a year, Y years cost on
//! average
//!
//! ```text
//! P · max(1, Y / L) + P · F · Y
//! ```
//!
//! The energy is the energy of the run, at the mean power of the run. If several equal drives are
//! used as one drive, one of these drives works at a time, and the other drives idle. The cost
//! leaves out work and the time of people.
//!
//! Data are lost with a drive that has the only copy of a block. Home has the only copy of some
//! blocks, and so has every part of a volume of ranges. A cache or a log has the only copy of some
//! blocks if, in the run, the newest content of any block was in the cache or log. A mirrored home
//! loses data if all its drives fail within [`REPAIR`] of each other. Failures are taken as
//! independent; although failures of drives from one batch often are not independent.
//!
//! A cloud volume is rented: its price is the rent of [`RENT_YEARS`], and includes energy and the
//! replacement of drives. The share of such volumes that fail in a year is one minus the durability
//! that the provider states.
//!
//! A figure that is computed from an unknown figure is unknown.

use bimetal_core::scheme::Holds;
use bimetal_core::units::Nanoseconds;
use bimetal_models::cloud::RENT_YEARS;
use bimetal_models::profile::Body;

use crate::lifetime::Unknown;
use crate::results::{Cost, FlashFigures, Member, MemberFigures, Run};
use crate::setup::{Drive, Setup};
use crate::simulator::Measured;

/// Time from the failure of a mirror's drive until its successor has all data: a drive is ordered,
/// delivered and filled.
pub const REPAIR: Nanoseconds = Nanoseconds::from_seconds(7 * 86_400);

/// Terms under which a volume is owned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// `--years`: number of years for which the volume is kept.
    pub years: f64,
    /// `--power-price`: price of a kilowatt-hour in US dollars.
    pub usd_per_kwh: f64,
}

impl Terms {
    /// Returns the cost of a year of drives that cost `bought` over all years, and take `watts`.
    fn of_a_year(self, bought: f64, watts: f64) -> f64 {
        bought / self.years + watts * HOURS_A_YEAR / 1000.0 * self.usd_per_kwh
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self { years: 5.0, usd_per_kwh: 0.15 }
    }
}

/// Facts about the drives of a run that the figures of the run do not contain.
#[derive(Clone, Debug)]
pub struct Owned {
    /// Drives in the order of the members.
    drives: Vec<OwnedDrive>,
    /// Measured time of the run.
    span: Nanoseconds,
    /// Set if the newest content of any block was off home.
    was_dirty: bool,
    /// Set if the run has one volume. For a tree of volumes this module does not compute losses.
    is_single: bool,
}

/// Facts about one drive.
#[derive(Clone, Debug)]
struct OwnedDrive {
    usd: Option<f64>,
    failures_per_year: Option<f64>,
    holds: Holds,
    /// Set if the loss of the drive loses nothing: home has a copy of each block.
    is_copied: bool,
    is_rented: bool,
    /// Number of equal drives that are used as one drive.
    count: u64,
    /// Power of one drive without requests.
    idle_watts: Option<f64>,
    /// Mass of carbon dioxide (equivalent) that making the drives set free, in kg: a range.
    carbon_kg: Option<[f64; 2]>,
}

impl Owned {
    /// Returns the facts about the drives of `setup` after a run.
    pub fn of(setup: &Setup, measured: &Measured) -> Self {
        let drives = setup.drives.iter().map(|drive| OwnedDrive {
            usd: drive.price.as_ref().map(|price| price.usd),
            failures_per_year: drive.profile.failures_per_year,
            holds: drive.holds,
            is_copied: is_copied(setup, drive),
            is_rented: drive.profile.is_rented(),
            count: drive.bought,
            idle_watts: idle_watts(&drive.profile.body),
            carbon_kg: embodied_carbon(drive),
        });
        Self {
            drives: drives.collect(),
            span: measured.end.saturating_sub(measured.start),
            was_dirty: measured.dirty.max() > 0,
            is_single: setup.tree.volumes().count() == 1,
        }
    }

    /// Writes the cost of a year, the probability of a loss, and the carbon dioxide of making the
    /// drives, into the figures of the run. The run must have the lives in steady state.
    pub fn note(&self, run: &mut Run, terms: Terms) {
        let Cost { controller_usd, .. } = run.cost;
        let of_a_year = |life: YearsOf| self.usd_per_year(&run.members, controller_usd.unwrap_or(0.0), terms, life);
        (run.cost.usd_per_year, run.cost.usd_per_year_most) = (of_a_year(computed), of_a_year(shortest));
        run.cost.loss_probability_per_year = self.loss_probability();
        run.cost.embodied_carbon_kg = self.drives.iter().try_fold([0.0, 0.0], |[low, high], drive| {
            let [own_low, own_high] = drive.carbon_kg?;
            Some([low + own_low, high + own_high])
        });
    }

    /// Returns the mean power of all drives that are not rented, over the time of the run; `None`
    /// if it is not known.
    pub fn watts(&self, members: &[Member]) -> Option<f64> {
        let powered = self.drives.iter().zip(members).filter(|(drive, _)| !drive.is_rented);
        powered.map(|(drive, member)| drive.watts(member, self.span)).sum()
    }

    fn usd_per_year(&self, members: &[Member], controller_usd: f64, terms: Terms, life: YearsOf) -> Option<f64> {
        let watts = self.watts(members)?;
        let each = self.drives.iter().zip(members);
        let bought =
            each.map(|(drive, member)| drive.bought(drive.usd?, sets(member, terms.years, life)?, terms.years));
        Some(terms.of_a_year(bought.sum::<Option<f64>>()? + controller_usd, watts))
    }

    /// Returns the probability that data are lost in a year; `None` if it is not known.
    pub fn loss_probability(&self) -> Option<f64> {
        if !self.is_single {
            return None;
        }
        let is_mirror = self.drives.iter().any(|drive| drive.holds == Holds::Copy);
        let (mut survives, mut copies) = (1.0, Vec::new());
        for drive in &self.drives {
            match drive.holds {
                Holds::Home | Holds::Copy if is_mirror => copies.push(drive.any_fails()?),
                Holds::Cache | Holds::Log if !self.was_dirty => {}
                Holds::Ranges if drive.is_copied => {}
                Holds::Home | Holds::Copy | Holds::Ranges | Holds::Cache | Holds::Log => {
                    survives *= 1.0 - drive.any_fails()?;
                }
            }
        }
        Some(1.0 - survives * (1.0 - all_fail(&copies)))
    }
}

/// Hours of a year.
pub const HOURS_A_YEAR: f64 = (Nanoseconds::YEAR.0 / Nanoseconds::from_seconds(3600).0) as f64;

/// Returns the probability that all copies fail in a year, each within [`REPAIR`] of the first; any
/// of the copies may be the first.
fn all_fail(failures_per_year: &[f64]) -> f64 {
    let others = failures_per_year.len().saturating_sub(1);
    let all: f64 = failures_per_year.iter().product();
    failures_per_year.len() as f64 * all * REPAIR.as_years_f64().powi(others as i32)
}

/// Range of the carbon dioxide (equivalent) that making a TB of hard disk sets free, in kg. Low: a
/// maker's figure for the Exos X20. High: the mean of 24 life-cycle assessments (Tannu and Nair,
/// arXiv 2207.10793). Sources differ by more than an order of magnitude.
const DISK_CARBON_KG_PER_TB: [f64; 2] = [1.2, 20.0];

/// Range of carbon dioxide from making flash, in kg for each TB. The low end of the range is a
/// maker's figure for a Nytro 3332 of 15 TB. The high end of the range is the mean of 94 published
/// assessments, in the study of Tannu and Nair.
const FLASH_CARBON_KG_PER_TB: [f64; 2] = [2.9, 160.0];

/// Returns the carbon dioxide from making a drive; `None` for a share of a drive, and for a cloud
/// volume.
fn embodied_carbon(drive: &Drive) -> Option<[f64; 2]> {
    let per_tb = match drive.profile.body {
        _ if drive.is_share => return None,
        Body::Hdd(_) => DISK_CARBON_KG_PER_TB,
        Body::Flash(_) => FLASH_CARBON_KG_PER_TB,
        Body::Cloud(_) => return None,
    };
    Some(per_tb.map(|kg| kg * drive.bought_size.0 as f64 / 1e12))
}

/// Returns true if home has a copy of each block of a drive that holds ranges.
fn is_copied(setup: &Setup, drive: &Drive) -> bool {
    let is_mirror = match setup.scheme.name {
        "hddboost" => true,
        "hyperduo" => setup.settings.get("mode") == Some("safe"),
        _ => false,
    };
    is_mirror && drive.holds == Holds::Ranges
}

/// Returns the power of a drive without requests.
fn idle_watts(body: &Body) -> Option<f64> {
    match body {
        Body::Hdd(profile) => profile.idle_watts,
        Body::Flash(profile) => profile.idle_watts,
        Body::Cloud(_) => None,
    }
}

impl OwnedDrive {
    /// Returns the mean power of the drives that are used as one drive, over the time of the run.
    fn watts(&self, member: &Member, span: Nanoseconds) -> Option<f64> {
        let at_work = Some(member.figures.energy_j()? / span.as_seconds_f64()).filter(|watts| watts.is_finite())?;
        match self.count {
            0 | 1 => Some(at_work),
            count => Some(at_work + (count - 1) as f64 * self.idle_watts?),
        }
    }

    /// Returns the probability that at least one of the drives that are used as one drive fails in
    /// a year.
    fn any_fails(&self) -> Option<f64> {
        Some(1.0 - (1.0 - self.failures_per_year?).powf(self.count as f64))
    }

    /// Returns the dollars for this drive, which costs `usd`, and its successors over `years`, of
    /// which wear asks for `sets`.
    fn bought(&self, usd: f64, sets: f64, years: f64) -> Option<f64> {
        if self.is_rented {
            return Some(usd / RENT_YEARS * years);
        }
        Some(usd * (sets + self.failures_per_year? * years))
    }
}

/// Chooses a life, in years, among those that the figures leave possible.
type YearsOf = fn(&FlashFigures) -> Option<f64>;

fn computed(flash: &FlashFigures) -> Option<f64> {
    flash.lifetime_years
}

fn shortest(flash: &FlashFigures) -> Option<f64> {
    flash.possible_years().map(|(least, _)| least)
}

/// Returns the number of drives that wear takes over `years`, a fraction for a worn part.
fn sets(member: &Member, years: f64, life: YearsOf) -> Option<f64> {
    match &member.figures {
        MemberFigures::Hdd(_) => Some(1.0),
        MemberFigures::Ssd(figures) => sets_of(life(&figures.flash), figures.flash.lifetime_unknown, years),
    }
}

/// Returns the number of flash drives that wear takes over `years`, if each lives for `life` years,
/// or its life is not known for a reason.
fn sets_of(life: Option<f64>, unknown: Option<Unknown>, years: f64) -> Option<f64> {
    match (life, unknown) {
        (Some(life), _) => Some((years / life).max(1.0)),
        (None, Some(Unknown::NeedsTimes) | None) => None,
        (None, Some(_)) => Some(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime::Life;
    use crate::results::{HddFigures, SsdFigures};

    fn owned(drives: &[(Holds, f64)], was_dirty: bool) -> Owned {
        let drive = |&(holds, failures): &(Holds, f64)| OwnedDrive {
            usd: Some(100.0),
            failures_per_year: Some(failures),
            holds,
            is_copied: false,
            is_rented: false,
            count: 1,
            idle_watts: Some(4.0),
            carbon_kg: None,
        };
        let span = Nanoseconds::from_seconds(10);
        Owned { drives: drives.iter().map(drive).collect(), span, was_dirty, is_single: true }
    }

    fn loss(drives: &[(Holds, f64)], was_dirty: bool) -> f64 {
        owned(drives, was_dirty).loss_probability().unwrap()
    }

    #[test]
    fn cache_is_needed_only_with_blocks_that_are_newest_there() {
        let drives = [(Holds::Home, 0.02), (Holds::Cache, 0.01)];
        assert!((loss(&drives, false) - 0.02).abs() < 1e-12);
        assert!((loss(&drives, true) - 0.0298).abs() < 1e-12);
        let log = [(Holds::Home, 0.02), (Holds::Log, 0.01)];
        assert!((loss(&log, true) - 0.0298).abs() < 1e-12);
    }

    /// Case: two drives of which 2 % fail in a year. One drive fails first, and the other within a
    /// week.
    #[test]
    fn mirror_loses_data_if_both_drives_fail_within_the_repair() {
        let mirror = loss(&[(Holds::Home, 0.02), (Holds::Copy, 0.02)], true);
        let by_hand = 2.0 * 0.02 * 0.02 * 7.0 / 365.25;
        assert!((mirror / by_hand - 1.0).abs() < 1e-3, "{mirror} beside {by_hand}");
        let striped = loss(&[(Holds::Home, 0.02), (Holds::Home, 0.02)], true);
        assert!((striped - 0.0396).abs() < 1e-12, "{striped}");
        let ranges = loss(&[(Holds::Ranges, 0.02), (Holds::Ranges, 0.01)], false);
        assert!((ranges - 0.0298).abs() < 1e-12, "{ranges}");
    }

    /// Eight disks drew the power of one.
    #[test]
    fn drives_that_are_used_as_one_all_draw_power() {
        let mut drives = owned(&[(Holds::Home, 0.02)], false).drives;
        let figures = HddFigures { energy_j: Some(60.0), ..HddFigures::default() };
        let member = Member::of_disk(figures);
        let watts = |drive: &OwnedDrive| drive.watts(&member, Nanoseconds::from_seconds(10));
        assert_eq!(watts(&drives[0]), Some(6.0));
        drives[0].count = 8;
        assert_eq!(watts(&drives[0]), Some(6.0 + 7.0 * 4.0), "one is at work, and seven idle");
        drives[0].idle_watts = None;
        assert_eq!(watts(&drives[0]), None);
    }

    #[test]
    fn cost_of_a_year_has_successors_of_worn_and_of_failed_drives() {
        let mut owned = owned(&[(Holds::Home, 0.02), (Holds::Cache, 0.01)], false);
        owned.drives[0].usd = Some(300.0);
        let terms = Terms { years: 5.0, usd_per_kwh: 0.1 };
        let cost_with = |life: Life, controller_usd| {
            let mut flash = SsdFigures { energy_j: Some(20.0), ..SsdFigures::default() };
            flash.flash.note_life(&life);
            let disk = Member::of_disk(HddFigures { energy_j: Some(30.0), ..HddFigures::default() });
            let cache = Member { figures: MemberFigures::Ssd(Box::new(flash)), ..disk.clone() };
            let mut run = Run { members: vec![disk, cache], ..Run::default() };
            run.cost.controller_usd = controller_usd;
            owned.note(&mut run, terms);
            (run.cost.usd_per_year, run.cost.usd_per_year_most)
        };
        let cost = |life: Life| cost_with(life, None).0.expect("all is known");
        let years = |years| Life { cycles_years: Some(years), ..Life::default() };
        // 5 W over a year, and failed drives.
        let power = 5.0 * HOURS_A_YEAR / 1000.0 * 0.1;
        let failed = 300.0 * 0.02 + 100.0 * 0.01;
        assert!((cost(years(20.0)) - (400.0 / 5.0 + failed + power)).abs() < 1e-9);
        assert!((cost(years(2.0)) - ((300.0 + 250.0) / 5.0 + failed + power)).abs() < 1e-9, "worn out in 2 years");
        let unwritten = Life { unknown: Some(Unknown::NothingWritten), ..Life::default() };
        assert_eq!(cost(unwritten), cost(years(20.0)));
        assert_eq!(cost_with(Life::default(), None), (None, None), "flash of unknown life");
        let controlled = cost_with(years(20.0), Some(50.0)).0.expect("all is known");
        assert!((controlled - cost(years(20.0)) - 10.0).abs() < 1e-9);
        let wide = Life { range_years: Some((2.0, 30.0)), ..years(20.0) };
        assert_eq!(cost_with(wide, None), (cost_with(years(20.0), None).0, cost_with(years(2.0), None).0));
    }

    /// Three disks that are used as one lose data when any of them fails.
    #[test]
    fn drives_that_are_used_as_one_all_count() {
        let mut several = owned(&[(Holds::Home, 0.02), (Holds::Cache, 0.01)], false);
        several.drives[0].count = 3;
        let by_hand = 1.0 - 0.98_f64.powi(3);
        assert!((several.loss_probability().unwrap() - by_hand).abs() < 1e-12);
    }

    /// The SSD of HDDBoost has a copy of what home has: its failure was counted as a loss.
    #[test]
    fn copied_ranges_are_no_loss() {
        let mut ranges = owned(&[(Holds::Home, 0.02), (Holds::Ranges, 0.01)], false);
        assert!((ranges.loss_probability().unwrap() - 0.0298).abs() < 1e-12);
        ranges.drives[1].is_copied = true;
        assert!((ranges.loss_probability().unwrap() - 0.02).abs() < 1e-12);
    }

    #[test]
    fn loss_with_an_unknown_failure_rate_is_unknown() {
        let mut unknown = owned(&[(Holds::Home, 0.02), (Holds::Cache, 0.01)], false);
        unknown.drives[1].failures_per_year = None;
        assert!(unknown.loss_probability().is_some(), "the cache is not needed");
        unknown.was_dirty = true;
        assert_eq!(unknown.loss_probability(), None);
        unknown.is_single = false;
        unknown.was_dirty = false;
        assert_eq!(unknown.loss_probability(), None);
    }
}
