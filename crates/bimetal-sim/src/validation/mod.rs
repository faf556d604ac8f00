//! How well a model of a drive agrees with the drive: measured response times against simulated ones.
//!
//! `sample.rs` holds what was measured and reads DiskSim's validation traces, `replay.rs` plays it over a model,
//! `demerit.rs` compares the two distributions as DiskSim does, and [`Agreement`] is all the figures together. `fit.rs` finds
//! the figures of a drive that nobody has a data sheet of.

mod agreement;
mod demerit;
mod fit;
mod replay;
mod sample;

pub use agreement::Agreement;
pub use demerit::{Curve, rms_demerit_ms};
pub use fit::{FitError, fit};
pub use replay::{Pace, replay};
pub use sample::{Sample, SampleError, read_validate_trace};
