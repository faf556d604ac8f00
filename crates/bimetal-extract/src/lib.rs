//! A profile of the drive on the desk, from timing alone.
//!
//! A [`target::Target`] is anything that takes commands and says when each is done: one of our models, or a file or block
//! device. The prober issues commands and sees nothing but their times; it has no clock of its own. [`extract`] finds out
//! what kind of drive it is, measures it (`disk/` and `flash/`, one part of a drive a file) and gives figures with their
//! errors, from which [`figures::Extraction::to_toml`] makes a profile that `--ssd` and `--hdd` take.
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

/// How a drive is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether the drive may be written to: what it holds is lost.
    pub writes: bool,
    /// How long it may take, by the drive's clock.
    pub budget: Nanoseconds,
    /// Starts what is random.
    pub seed: u64,
}

/// The smallest drive that can be measured.
pub const SIZE_MIN: Bytes = Bytes::from_mib(16);

/// Why a drive could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// There is not enough of it.
    #[error("the drive has {size}: expected at least {SIZE_MIN}, so that places far apart can be timed")]
    TooSmall {
        /// What it has.
        size: Bytes,
    },
    /// A command failed.
    #[error("a command failed ({status:?}): a drive with errors cannot be measured; look at its health first")]
    Failed {
        /// How it ended.
        status: Status,
    },
    /// The time ran out before the first figure.
    #[error("the budget of {budget} was over before {what} was known: give more time")]
    NoTime {
        /// The budget.
        budget: Nanoseconds,
        /// What was missing.
        what: &'static str,
    },
    /// It fits no model.
    #[error("{what}: the drive is none that the models describe, or something else uses it meanwhile")]
    Unlike {
        /// What was seen.
        what: String,
    },
}

/// Measures `target`; `report` is told which part of the whole is done, from 0 to 1.
///
/// # Errors
/// The drive is too small, fails, behaves like no drive that the models describe, or the budget is too short for the first
/// figure.
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
            "reads here and there take {:.1} us, and no flash behind a controller answers in less than {:.0} us: it was memory",
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

/// The profile of what was found so far.
fn read_back(extraction: &Extraction) -> Result<Profile, ExtractError> {
    Profile::parse(&extraction.to_toml("extracted", "as extracted"), "the extracted profile").map_err(unreadable)
}

/// Figures that make no drive.
fn unreadable(error: ProfileError) -> ExtractError {
    ExtractError::Unlike { what: error.to_string() }
}

/// No read of flash, with its controller and link, takes less.
const FLASH_NS_MIN: f64 = 8e3;

/// Reads here and there: on a disk they take milliseconds, and each another time. Gives also what they take in the middle.
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
