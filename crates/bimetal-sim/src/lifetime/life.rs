//! Lifetime of one flash drive, with the reason for which it is unknown.

use bimetal_core::units::Bytes;
use bimetal_models::endurance::{Endurance, Lifetime, LimitedBy, drive_writes_per_day};
use bimetal_models::profile::Profile;
use serde::Serialize;

/// Lifetime of one flash drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Life {
    /// Name of the member: `ssd`, `log`, or `ssd2` and so on.
    pub member: String,
    /// Name of the drive's profile.
    pub profile: String,
    /// Years until the warranted writes or the rated cycles are used up, whichever happens first;
    /// null if the lifetime is unknown, or only its range is known.
    pub years: Option<f64>,
    /// Limit that ends the life first.
    pub limited_by: Option<LimitedBy>,
    /// Years until the writes that the maker warrants are used up; null if the profile has no such
    /// figure.
    pub warranted_years: Option<f64>,
    /// Years until the rated cycles are used up.
    pub cycles_years: Option<f64>,
    /// Reason for which the lifetime is unknown; null if it is known.
    pub unknown: Option<Unknown>,
    /// Set if nothing is written, so that the drive does not wear.
    pub unlimited: bool,
    /// Shortest and longest lifetime that the trace leaves possible. The longest is infinite (in
    /// JSON null) if nothing was written while the stream was recorded.
    pub range_years: Option<(f64, f64)>,
    /// Limit that ends the shortest of these lives.
    pub shortest_limited_by: Option<LimitedBy>,
    /// Bytes erased for each byte written to the drive, at steady state, as far as erases use up
    /// rated cycles: an erase of a block with one bit in each cell counts as a tenth.
    pub erased_per_written: Option<f64>,
    /// Bytes written to the drive each second, once caches are warm, or while they warm if only new
    /// data is written; null without times.
    pub written_bytes_per_s: Option<f64>,
    /// Drive writes a day: bytes written a day, as a multiple of the drive's size; null without
    /// times.
    pub dwpd: Option<f64>,
    /// Factor by which the played drive is smaller than the real drive.
    pub scaled_down: f64,
    /// Set if the wear settled within the played rounds.
    pub converged: bool,
    /// Set if the drive's own erases were counted, because the scheme watches the drive.
    pub followed: bool,
    /// Set if the trace writes less than the drive's flash holds, so that it does not show the
    /// long-term wear.
    pub trace_too_short: bool,
}

/// Reason for which a lifetime is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unknown {
    /// The requests have no times, or a closed replay ignores them, so that the load has no rate.
    #[serde(rename = "needs times")]
    NeedsTimes,
    /// Nothing is written to the drive.
    #[serde(rename = "nothing is written")]
    NothingWritten,
    /// The drive is written only while data is new to it: the trace, played again, writes nothing.
    /// The range of the lifetime has the life under writes as in the first round.
    #[serde(rename = "only new data is written")]
    OnlyNewData,
    /// No block was erased in the run, and the maker's warranted writes are not known.
    #[serde(rename = "nothing was erased")]
    NothingErased,
    /// The drive is rented: its provider replaces worn flash.
    #[serde(rename = "rented")]
    Rented,
}

impl Life {
    /// Creates a life of which nothing is known yet.
    pub(super) fn unknown(drive: &str, profile: &Profile, unknown: Unknown) -> Self {
        Self {
            member: drive.to_owned(),
            profile: profile.name.clone(),
            years: None,
            limited_by: None,
            warranted_years: None,
            cycles_years: None,
            unknown: Some(unknown),
            unlimited: unknown == Unknown::NothingWritten,
            range_years: None,
            shortest_limited_by: None,
            erased_per_written: None,
            written_bytes_per_s: None,
            dwpd: None,
            scaled_down: 1.0,
            converged: true,
            followed: false,
            trace_too_short: false,
        }
    }

    /// Creates the life of a drive under a load whose wear is known: bytes written a second, and
    /// bytes erased for each byte written.
    pub fn at_rates(
        drive: &str,
        profile: &Profile,
        size: Bytes,
        written_bytes_per_s: f64,
        erased_per_written: f64,
    ) -> Self {
        let mut life = Self::unknown(drive, profile, Unknown::NothingWritten);
        life.note_load(written_bytes_per_s, size);
        if written_bytes_per_s > 0.0 {
            life.erased_per_written = Some(erased_per_written);
            let endurance = Endurance::of(profile, size.sectors()).unwrap_or_default();
            life.note(endurance.lifetime(written_bytes_per_s, written_bytes_per_s * erased_per_written));
        }
        life
    }

    /// Returns the years; infinity if nothing is erased.
    pub fn years_or_more(&self) -> f64 {
        self.years.unwrap_or(f64::INFINITY)
    }

    /// Returns the years, or the least years of a life of which only the range is known.
    pub fn years_or_least(&self) -> Option<f64> {
        self.years.or(self.range_years.map(|(least, _)| least))
    }

    /// Widens the range to include a lifetime computed from a part of the trace, which `limited_by`
    /// would end.
    pub fn may_be(&mut self, years: Option<f64>, limited_by: Option<LimitedBy>) {
        if let (Some((least, most)), Some(years)) = (&mut self.range_years, years) {
            if years < *least {
                self.shortest_limited_by = limited_by;
            }
            (*least, *most) = (least.min(years), most.max(years));
        }
    }

    /// Returns the life of a drive that is written only while data is new to it, and lasts at least
    /// for `shortest`.
    pub(super) fn of_only_new_data(self, shortest: Lifetime) -> Self {
        let range_years = shortest.years().map(|years| (years, f64::INFINITY));
        let (unknown, unlimited) = (Some(Unknown::OnlyNewData), false);
        Self { unknown, unlimited, range_years, shortest_limited_by: shortest.limited_by(), ..self }
    }

    pub(super) fn note_load(&mut self, written_bytes_per_s: f64, size: Bytes) {
        self.written_bytes_per_s = Some(written_bytes_per_s);
        self.dwpd = Some(drive_writes_per_day(written_bytes_per_s, size.sectors()));
    }

    /// Takes over the lifetimes by warranty and by cycles.
    pub fn note(&mut self, lifetime: Lifetime) {
        (self.warranted_years, self.cycles_years) = (lifetime.warranted_years, lifetime.cycles_years);
        (self.years, self.limited_by) = (lifetime.years(), lifetime.limited_by());
        self.unlimited = false;
        self.unknown = self.years.is_none().then_some(Unknown::NothingErased);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_without_writes_is_unlimited_and_unknown() {
        let profile = Profile::load("intel-x25-m-80gb").unwrap();
        let life = Life::at_rates("ssd", &profile, profile.capacity.bytes(), 0.0, f64::NAN);
        assert_eq!((life.years, life.unlimited, life.unknown), (None, true, Some(Unknown::NothingWritten)));
        let life = Life::at_rates("ssd", &profile, profile.capacity.bytes(), 1.0, 1.0);
        assert!(life.years.is_some() && !life.unlimited && life.unknown.is_none(), "{life:?}");
    }
}
