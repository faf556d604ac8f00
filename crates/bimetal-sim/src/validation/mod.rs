//! Agreement of a model of a drive with the drive: measured response times against simulated
//! response times.
//!
//! `sample.rs` holds the measurements and reads DiskSim's validation traces, and `replay.rs` plays
//! them over a model. `demerit.rs` compares the two distributions as DiskSim does, and
//! [`Agreement`] holds all figures. `fit.rs` finds the figures of a drive without a data sheet.

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
