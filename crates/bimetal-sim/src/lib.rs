//! Simulator: the engine of `bimetal-core` over the drives of `bimetal-models`, in virtual time,
//! with its measurements.
//!
//! A run proceeds as follows. A [`workload`] is surveyed once ([`survey`]: number of requests,
//! addresses used). Drives are chosen and sized for a scheme ([`setup`], or for a [`tree`] of
//! volumes). The [`simulator`] plays the workload over them, and [`figures`] turns the counters
//! into the [`results`] document. An [`experiment`] does this for several schemes, one on each
//! core. [`metrics`] are the recorders of the inner loop. [`placement`] searches, by many runs, for
//! the files that belong on an SSD. Independently of all this, [`mrc`] measures the miss ratios of
//! caches of any size and policy. Nothing here decides where a block is stored.

pub mod block_layer;
pub mod combo_hdtune;
pub mod experiment;
pub mod figures;
pub mod findings;
mod hints;
mod keys;
pub mod limits;
mod member_name;
pub mod metrics;
pub mod mrc;
pub mod placement;
pub mod results;
pub mod setup;
pub mod simulator;
pub mod survey;
pub mod tree;
pub mod validation;
pub mod wear_levelling;
pub mod workload;
