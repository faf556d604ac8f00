//! Extracts the profile of a real drive, from timing alone.
//!
//! A [`target::Target`] takes commands and returns the time at which each command is done. A target
//! is a model, or a file or block device. The prober issues commands and sees nothing but their
//! times; the prober has no clock of its own. [`extract`] determines the kind of drive and measures
//! the drive (`disk/` and `flash/`, one file for each part of a drive). `extract` returns figures
//! with their errors, from which [`figures::Extraction::to_toml`] makes a profile that `--ssd` and
//! `--hdd` take.
//!
//! Read first: [`extract`] below, then `disk/mod.rs` or `flash/mod.rs`.

mod disk;
pub mod figures;
pub mod file;
mod flash;
mod prober;
mod statistics;
pub mod target;

use bimetal_core::operation::Status;
use bimetal_core::units::{Bytes, Nanoseconds};

use bimetal_models::profile::{Profile, ProfileError};

use figures::{Extraction, Kind};
use prober::Prober;
use target::Target;

/// Options of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Set if the drive may be written to, which destroys its content.
    pub writes: bool,
    /// Longest duration, by the drive's clock.
    pub budget: Nanoseconds,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Smallest drive that can be measured.
pub const SIZE_MIN: Bytes = Bytes::from_mib(16);

/// Reasons for which a drive cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The drive is too small.
    #[error("the drive has {size}: expected at least {SIZE_MIN}, so that distant places can be timed")]
    TooSmall {
        /// Size of the drive.
        size: Bytes,
    },
    /// A command failed.
    #[error("a command failed ({status:?}), and a drive with errors cannot be measured: check its health first")]
    Failed {
        /// Status of the command.
        status: Status,
    },
    /// The budget of time was used up before the first figure.
    #[error("the budget of {budget} ended before {what} was known: give more time")]
    NoTime {
        /// Budget of the measurement.
        budget: Nanoseconds,
        /// Figure that was not measured yet.
        what: &'static str,
    },
    /// The drive fits no model.
    #[error("{what}: the drive is unlike all models, or another program uses it meanwhile")]
    Unlike {
        /// Observation that fits no model.
        what: String,
    },
}

/// Measures `target`. Calls `report` with the part of the measurement that is done, from 0 to 1.
///
/// # Errors
/// Fails if the drive is too small, fails, or behaves unlike all drives that the models describe.
/// Fails also if the budget is too short for the first figure.
pub fn extract(
    target: &mut dyn Target,
    options: &Options,
    report: &mut dyn FnMut(f64),
) -> Result<Extraction, ExtractError> {
    let size = target.capacity().bytes();
    if size < SIZE_MIN {
        return Err(ExtractError::TooSmall { size });
    }
    let mut prober = Prober::new(target, options, report);
    let (kind, usual_ns) = kind_of(&mut prober)?;
    let mut extraction = match kind {
        Kind::Hdd => disk::extract(&mut prober, options)?,
        Kind::Flash => flash::extract(&mut prober, options)?,
    };
    (extraction.commands, extraction.seconds) = (prober.commands, prober.elapsed_ns() as f64 / 1e9);
    if !prober.left_out.is_empty() {
        let missing = prober.left_out.join(", ");
        extraction.notes.push(format!("The budget of {} was too short for: {missing}.", options.budget));
    }
    let doubt = match kind {
        Kind::Flash if usual_ns < FLASH_NS_MIN => Some(format!(
            "random reads take {:.1} us, and no flash behind a controller answers in less than {:.0} us: memory \
             answered",
            usual_ns / 1e3,
            FLASH_NS_MIN / 1e3
        )),
        Kind::Flash => extraction.unlike_flash(),
        Kind::Hdd => None,
    };
    if let Some(doubt) = doubt {
        extraction.doubt(&doubt);
    }
    Ok(extraction)
}

/// Returns the profile of the figures so far.
fn read_back(extraction: &Extraction) -> Result<Profile, ExtractError> {
    Profile::parse(&extraction.to_toml("extracted", "as extracted"), "the extracted profile").map_err(unreadable)
}

/// Returns the error for figures that no drive can have.
fn unreadable(error: ProfileError) -> ExtractError {
    ExtractError::Unlike { what: error.to_string() }
}

/// Smallest time of a read of flash, with its controller and link.
const FLASH_NS_MIN: f64 = 8e3;

/// Determines the kind of drive by random reads: on a disk the reads take milliseconds, each a
/// different time. Also returns the median time of the reads.
fn kind_of(prober: &mut Prober<'_>) -> Result<(Kind, f64), ExtractError> {
    prober.step("the kind of drive", 0.01);
    let mut times = Vec::new();
    for _ in 0..24 {
        let lbn = prober.anywhere(prober.grain);
        times.push(prober.read(lbn, prober.grain)?.ns());
    }
    let (low, high) = (statistics::quantile(&mut times, 0.2), statistics::quantile(&mut times, 0.8));
    let kind = if low > 1e6 && high - low > 1e6 { Kind::Hdd } else { Kind::Flash };
    Ok((kind, statistics::median(&mut times)))
}
