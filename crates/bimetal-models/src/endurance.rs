//! Endurance of a flash drive, and its lifetime under a load.
//!
//! Two limits end a life. The maker warrants an amount of writes by the host (terabytes written,
//! TBW). The flash allows an amount of erased bytes: its size times the rated cycles. The lower
//! lifetime counts. The simulator, the planner and the status of a live volume use this function.

use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, Sectors};
use serde::{Deserialize, Serialize};

use crate::profile::{Body, Profile};

/// Number of erases that use up a rated cycle, if the erased block had one bit in each cell and
/// cells that can hold more. The rating is of a block that is programmed with all bits.
///
/// This figure is an assumption without a single source. Makers of drives in such a mode (pSLC)
/// state 10 to 30 times the cycles of the same flash with all bits. The smallest of their figures
/// counts here, so that no lifetime is too long.
pub const SINGLE_BIT_ERASES_PER_CYCLE: u64 = 10;

/// Returns the rated cycles that `erases` use up, of which `single_bit` were erases of blocks with
/// one bit in each cell.
pub fn cycles_of(erases: u64, single_bit: u64) -> f64 {
    (erases - single_bit) as f64 + single_bit as f64 / SINGLE_BIT_ERASES_PER_CYCLE as f64
}

/// Limits of a drive's life, in bytes. An unknown limit is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Endurance {
    /// Bytes that the host may write under the maker's warranty.
    pub warranted: Option<f64>,
    /// Bytes that can be erased: the size of the flash times the rated cycles. See [`cycles_of`]
    /// for blocks with one bit in each cell.
    pub rated: Option<f64>,
}

/// Limit that ends a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The writes that the maker warrants are used up first.
    Warranty,
    /// The rated cycles are used up first.
    Cycles,
}

/// Lifetimes of a drive under a load that goes on for ever. A lifetime is `None` if the limit is
/// unknown, or the load does not use it up.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Lifetime {
    /// Years until the warranted writes are used up.
    pub warranted_years: Option<f64>,
    /// Years until the rated cycles are used up.
    pub cycles_years: Option<f64>,
}

impl Endurance {
    /// Returns the endurance of a drive of `size`; `None` if the profile is not flash, or cannot
    /// have that size. Makers warrant a larger drive of a model for more writes. So the warranted
    /// writes of a drive, or of a part of a drive, are scaled with its size.
    pub fn of(profile: &Profile, size: Sectors) -> Option<Self> {
        let Body::Flash(flash) = &profile.body else { return None };
        let geometry = flash.geometry(profile.capacity, Some(size)).ok()?;
        let share = size.0 as f64 / profile.capacity.0 as f64;
        Some(Self {
            warranted: flash.warranted_bytes(profile.capacity).map(|bytes| bytes * share),
            rated: Some(geometry.physical_bytes().0 as f64 * f64::from(flash.rated_cycles)),
        })
    }

    /// Returns the lifetimes at these rates, in bytes a second: writes of the host, and erases in
    /// steady state.
    pub fn lifetime(&self, written_per_s: f64, erased_per_s: f64) -> Lifetime {
        let years = |amount: Option<f64>, per_s: f64| {
            amount.filter(|_| per_s > 0.0).map(|amount| amount / per_s * Nanoseconds::from_seconds(1).as_years_f64())
        };
        Lifetime {
            warranted_years: years(self.warranted, written_per_s),
            cycles_years: years(self.rated, erased_per_s),
        }
    }
}

impl Lifetime {
    /// Returns the years of the lower lifetime; `None` if neither is known.
    pub fn years(&self) -> Option<f64> {
        match (self.warranted_years, self.cycles_years) {
            (Some(warranted), Some(cycles)) => Some(warranted.min(cycles)),
            (warranted, cycles) => warranted.or(cycles),
        }
    }

    /// Returns the limit of the lower lifetime.
    pub fn limited_by(&self) -> Option<LimitedBy> {
        match (self.warranted_years, self.cycles_years) {
            (Some(warranted), Some(cycles)) if cycles < warranted => Some(LimitedBy::Cycles),
            (Some(_), _) => Some(LimitedBy::Warranty),
            (None, Some(_)) => Some(LimitedBy::Cycles),
            (None, None) => None,
        }
    }
}

/// Returns the drive writes a day (DWPD) of a load: bytes written by the host a day, as a multiple
/// of the drive's size.
pub fn drive_writes_per_day(written_per_s: f64, size: Sectors) -> f64 {
    written_per_s * 86_400.0 / (size.0 * SECTOR_BYTES) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::units::Bytes;

    const YEAR_S: f64 = 365.25 * 86_400.0;

    fn endurance_of_gigabytes(gigabytes: u64) -> Endurance {
        let profile = Profile::load("samsung-970-evo-plus-500gb").unwrap();
        Endurance::of(&profile, Bytes(gigabytes * 1_000_000_000).sectors()).unwrap()
    }

    /// An office server writes 78.2 TB a year. The 300 TB that the maker warrants last 3.8 years,
    /// and the rated 1500 cycles would last longer. Regression: the planner promised the longer
    /// time.
    #[test]
    fn warranted_writes_limit_a_life_before_rated_cycles() {
        let rate = 78.2e12 / YEAR_S;
        let life = endurance_of_gigabytes(500).lifetime(rate, rate);
        assert!((life.years().unwrap() - 300.0 / 78.2).abs() < 0.01, "{life:?}");
        assert_eq!(life.limited_by(), Some(LimitedBy::Warranty));
        assert!((life.cycles_years.unwrap() - 10.2).abs() < 0.8, "{life:?}");
    }

    /// Small random writes amplify. With small random writes the cycles are used up before the
    /// warranted writes.
    #[test]
    fn rated_cycles_limit_a_life_under_high_amplification() {
        let rate = 78.2e12 / YEAR_S;
        let life = endurance_of_gigabytes(500).lifetime(rate, 5.0 * rate);
        assert_eq!(life.limited_by(), Some(LimitedBy::Cycles));
        assert_eq!(life.years(), life.cycles_years);
        assert!(life.years() < life.warranted_years);
    }

    /// A cache on a fifth of a drive may write a fifth of the warranted bytes, and a drive of twice
    /// the size twice as many.
    #[test]
    fn warranted_writes_grow_with_the_size_of_the_drive() {
        for (gigabytes, warranted) in [(500, 300e12), (100, 60e12), (1000, 600e12)] {
            let found = endurance_of_gigabytes(gigabytes).warranted.unwrap();
            assert!((found / warranted - 1.0).abs() < 1e-3, "{gigabytes} GB: {found}");
        }
    }

    /// Makers of drives for data centres warrant drive writes a day. The terabytes written that
    /// these makers state are the drive writes a day, times the size, times the days of the
    /// warranty.
    #[test]
    fn drive_writes_a_day_are_a_warranty_too() {
        let mut profile = Profile::load("samsung-pm983-960gb").unwrap();
        let warranted = |profile: &Profile| Endurance::of(profile, profile.capacity).unwrap().warranted.unwrap();
        profile.set("warranted_drive_writes_per_day", "3").unwrap();
        assert!((warranted(&profile) / (3.0 * 960e9 * 5.0 * 365.0) - 1.0).abs() < 0.01, "{}", warranted(&profile));
        profile.set("warranty_years", "3").unwrap();
        assert!((warranted(&profile) / (3.0 * 960e9 * 3.0 * 365.0) - 1.0).abs() < 0.01);
        assert!(profile.set("warranty_years", "0").is_err());
        assert!(profile.set("warranted_drive_writes_per_day", "-1").is_err());
    }

    #[test]
    fn single_bit_erase_uses_up_a_tenth_of_a_cycle() {
        assert_eq!([cycles_of(12, 0), cycles_of(12, 10), cycles_of(10, 10)], [12.0, 3.0, 1.0]);
    }

    #[test]
    fn lifetime_is_unknown_without_writes_and_limits() {
        assert_eq!(endurance_of_gigabytes(500).lifetime(0.0, 0.0), Lifetime::default());
        let nothing = Endurance::default().lifetime(1.0, 1.0);
        assert_eq!((nothing.years(), nothing.limited_by()), (None, None));
        let cycles = Endurance { warranted: None, rated: Some(1e12) }.lifetime(1.0, 1.0);
        assert_eq!(cycles.limited_by(), Some(LimitedBy::Cycles));
        let disk = Profile::load(crate::profile::DEFAULT_HDD).unwrap();
        assert_eq!(Endurance::of(&disk, disk.capacity), None);
    }

    #[test]
    fn drive_writes_a_day_are_multiples_of_the_size() {
        let size = Bytes(500_000_000_000).sectors();
        assert!((drive_writes_per_day(1e12 / 86_400.0, size) - 2.0).abs() < 1e-6);
    }
}
