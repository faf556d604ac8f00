//! Fits the few figures of a data sheet so that a model agrees best with measurements of a drive.

use bimetal_core::units::{Nanoseconds, Sectors};
use bimetal_models::hdd::HddProfile;
use bimetal_models::hdd::profile::{SeekFigures, Switch};
use bimetal_models::profile::{Profile, ProfileError};

use super::demerit::{Curve, rms_demerit_ms};
use super::replay::{Pace, replay};
use super::sample::Sample;

/// Spindle speeds of drives on the market.
const RPM: [f64; 6] = [4200.0, 5400.0, 5900.0, 7200.0, 10_000.0, 15_000.0];
/// Factors by which figures are changed: first coarse factors for each spindle speed, and last fine
/// factors for the best figures.
const STEPS: [&[f64]; 2] = [&[1.5, 1.15], &[1.05, 1.02]];
/// Largest number of requests that are played for each try.
const REQUESTS: usize = 20_000;

/// Reasons for which no figures can be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The profile is not a hard disk, or was not made from a data sheet.
    #[error(
        "{profile}: {key} is missing, so it cannot be fitted: expected a hard disk's profile made from a data sheet, \
         with command_overhead_ms, outer_mb_per_s, inner_mb_per_s and the three seek times"
    )]
    NoDataSheet {
        /// Name of the profile.
        profile: String,
        /// Key that the profile lacks.
        key: &'static str,
    },
    /// The drive cannot be built.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Figures that are fitted.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figures {
    rpm: f64,
    overhead_ms: f64,
    outer_mb_per_s: f64,
    inner_mb_per_s: f64,
    read: SeekFigures,
    write: SeekFigures,
    write_cache: Switch,
}

impl Figures {
    fn of(profile: &Profile) -> Result<Self, FitError> {
        let missing = |key| FitError::NoDataSheet { profile: profile.name.clone(), key };
        let hdd = profile.hdd().ok_or(missing("seek_average_ms"))?;
        let seeks = |seeks: fn(&HddProfile) -> Option<SeekFigures>| seeks(hdd).ok_or(missing("seek_average_ms"));
        Ok(Self {
            rpm: hdd.rpm,
            overhead_ms: hdd.command_overhead_ms.ok_or(missing("command_overhead_ms"))?,
            outer_mb_per_s: hdd.outer_mb_per_s.ok_or(missing("outer_mb_per_s"))?,
            inner_mb_per_s: hdd.inner_mb_per_s.ok_or(missing("inner_mb_per_s"))?,
            read: seeks(HddProfile::read_seek)?,
            write: seeks(HddProfile::write_seek)?,
            write_cache: hdd.write_cache,
        })
    }

    /// Returns the figures as keys and values of a profile.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let number = |value: f64| ((value * 1e4).round() / 1e4).to_string();
        vec![
            ("rpm", number(self.rpm)),
            ("command_overhead_ms", number(self.overhead_ms)),
            ("outer_mb_per_s", number(self.outer_mb_per_s)),
            ("inner_mb_per_s", number(self.inner_mb_per_s)),
            ("seek_track_to_track_ms", number(self.read.track_to_track_ms)),
            ("seek_average_ms", number(self.read.average_ms)),
            ("seek_full_stroke_ms", number(self.read.full_stroke_ms)),
            ("write_seek_track_to_track_ms", number(self.write.track_to_track_ms)),
            ("write_seek_average_ms", number(self.write.average_ms)),
            ("write_seek_full_stroke_ms", number(self.write.full_stroke_ms)),
            ("write_cache", if self.write_cache == Switch::On { "on" } else { "off" }.to_owned()),
        ]
    }

    /// Returns true if drives on the market have such figures. Without this check, a fit would
    /// explain effects outside of the disk by seek times of a second.
    fn are_a_drives(&self) -> bool {
        (0.01..=2.0).contains(&self.overhead_ms)
            && (2.5..=20.0).contains(&self.read.average_ms)
            && (10.0..=400.0).contains(&self.outer_mb_per_s)
    }

    /// Returns the figures with every spindle speed, and with and without write cache.
    fn starts(self) -> impl Iterator<Item = Self> {
        let caches = [Switch::On, Switch::Off];
        RPM.iter().flat_map(move |rpm| caches.map(|write_cache| Self { rpm: *rpm, write_cache, ..self }))
    }

    /// Returns these figures with the overhead, the seek times or the rates changed by `step`, up
    /// or down.
    fn neighbours(self, step: f64) -> impl Iterator<Item = Self> {
        [step, 1.0 / step].into_iter().flat_map(move |factor| {
            let times = |seeks: SeekFigures| SeekFigures {
                track_to_track_ms: seeks.track_to_track_ms * factor,
                average_ms: seeks.average_ms * factor,
                full_stroke_ms: seeks.full_stroke_ms * factor,
            };
            let (outer_mb_per_s, inner_mb_per_s) = (self.outer_mb_per_s * factor, self.inner_mb_per_s * factor);
            [
                Self { overhead_ms: self.overhead_ms * factor, ..self },
                Self { read: times(self.read), write: times(self.write), ..self },
                Self { outer_mb_per_s, inner_mb_per_s, ..self },
            ]
        })
    }
}

/// Changes the figures to their best neighbour, for each step, as long as the neighbour is better.
/// `distance_ms` is infinite for figures that are impossible together.
fn descend(mut best: (f64, Figures), steps: &[f64], distance_ms: &impl Fn(&Figures) -> f64) -> (f64, Figures) {
    for step in steps {
        loop {
            let tried = best.1.neighbours(*step).map(|figures| (distance_ms(&figures), figures));
            match tried.min_by(|a, b| a.0.total_cmp(&b.0)) {
                Some(better) if better.0 < best.0 * 0.999 => best = better,
                _ => break,
            }
        }
    }
    best
}

/// Changes the data-sheet figures of `profile` to fit `samples`: spindle speed, seek times, rates,
/// overhead and write cache. With the fitted figures, the drive of `capacity` has response times as
/// near as possible to the samples. At most the first twenty thousand samples are played. The
/// nearest drive has the least rms demerit, found for each spindle speed by changing one figure at
/// a time. Returns the fitted figures, as keys and values.
///
/// # Errors
/// Refuses a profile without the figures to fit, or a profile that cannot be built.
pub fn fit(
    profile: &mut Profile,
    samples: &[Sample],
    pace: Pace,
    capacity: Sectors,
) -> Result<Vec<(&'static str, String)>, FitError> {
    let samples = &samples[..samples.len().min(REQUESTS)];
    let measured: Vec<Nanoseconds> = samples.iter().map(|sample| sample.measured).collect();
    let measured = Curve::new(&measured);
    let tried = |figures: &Figures| -> Result<f64, ProfileError> {
        let mut tried = profile.clone();
        let settings = figures.settings();
        tried.set_all(settings.iter().map(|(key, value)| (*key, value.as_str())))?;
        let mut drive = tried.build(Some(capacity), 0)?;
        Ok(rms_demerit_ms(&measured, &Curve::new(&replay(&mut *drive, samples, pace))))
    };
    let given = Figures::of(profile)?;
    let mut best = (tried(&given)?, given);
    let distance_ms = |figures: &Figures| match figures.are_a_drives() {
        true => tried(figures).unwrap_or(f64::INFINITY),
        false => f64::INFINITY,
    };
    for start in given.starts() {
        let found = descend((distance_ms(&start), start), STEPS[0], &distance_ms);
        best = if found.0 < best.0 { found } else { best };
    }
    let (_, best) = descend(best, STEPS[1], &distance_ms);
    let settings = best.settings();
    profile.set_all(settings.iter().map(|(key, value)| (*key, value.as_str())))?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use bimetal_core::operation::OpKind;
    use bimetal_core::units::SectorRange;
    use bimetal_models::profile::DEFAULT_HDD;

    use super::*;

    /// Returns measurements of a drive slower than the default drive.
    fn measured() -> Vec<Sample> {
        let samples: Vec<_> = (0..3000_u64)
            .map(|serial| Sample {
                arrival: Nanoseconds::from_millis(serial * 60),
                kind: if serial % 3 == 0 { OpKind::Write } else { OpKind::Read },
                range: SectorRange::new(serial * serial * 7_919_003 % 1_900_000_000, 8 + serial % 64),
                measured: Nanoseconds::ZERO,
                think: Nanoseconds::from_millis(17),
            })
            .collect();
        let mut drive = Profile::load(DEFAULT_HDD).unwrap();
        let slower = [
            ("rpm", "5400"),
            ("seek_track_to_track_ms", "1.5"),
            ("seek_average_ms", "12.75"),
            ("seek_full_stroke_ms", "27"),
            ("write_seek_track_to_track_ms", "1.8"),
            ("write_seek_average_ms", "14.25"),
            ("write_seek_full_stroke_ms", "28.5"),
            ("write_cache", "off"),
        ];
        drive.set_all(slower).unwrap();
        let responses = replay(&mut *drive.build(None, 0).unwrap(), &samples, Pace::Closed);
        samples.into_iter().zip(responses).map(|(sample, measured)| Sample { measured, ..sample }).collect()
    }

    fn second_half_ms(profile: &Profile, samples: &[Sample]) -> f64 {
        let simulated = replay(&mut *profile.build(None, 0).unwrap(), samples, Pace::Closed);
        let measured: Vec<_> = samples.iter().map(|sample| sample.measured).collect();
        let half = samples.len() / 2;
        rms_demerit_ms(&Curve::new(&measured[half..]), &Curve::new(&simulated[half..]))
    }

    /// The fit finds the figures of an unknown drive. The fitted figures hold for samples that the
    /// fit did not use.
    #[test]
    fn fit_finds_figures_that_hold_for_unseen_samples() {
        let samples = measured();
        let mut profile = Profile::load(DEFAULT_HDD).unwrap();
        let before_ms = second_half_ms(&profile, &samples);
        let capacity = profile.capacity;
        let fitted = fit(&mut profile, &samples[..1500], Pace::Closed, capacity).unwrap();
        assert!(fitted.contains(&("rpm", "5400".to_owned())), "{fitted:?}");
        assert!(fitted.contains(&("write_cache", "off".to_owned())), "{fitted:?}");
        let after_ms = second_half_ms(&profile, &samples);
        assert!(before_ms > 5.0 && after_ms < 0.5, "{before_ms} ms before, {after_ms} ms after");
    }

    #[test]
    fn a_profile_without_the_figures_of_a_data_sheet_is_refused() {
        for name in ["disksim-atlas10k", "samsung-870-qvo-1tb"] {
            let mut profile = Profile::load(name).unwrap();
            let capacity = profile.capacity;
            let error = fit(&mut profile, &measured()[..10], Pace::Closed, capacity).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is missing, so it cannot be fitted"), "{error}");
        }
    }
}
