//! The simulator: the engine of `bimetal-core` over the drives of `bimetal-models`, in virtual time, and what is measured
//! meanwhile.

pub mod metrics;
pub mod results;
