//! The simulator: the engine of `bimetal-core` over the drives of `bimetal-models`, in virtual time, and what is measured
//! meanwhile.
//!
//! A run goes like this: a [`workload`] is surveyed once ([`survey`]: how many requests, which addresses), drives are
//! chosen and sized for a scheme ([`setup`], or for a [`tree`] of volumes), the [`simulator`] plays the workload over them, and [`figures`] turns what was
//! counted into the [`results`] document. An [`experiment`] is that for several schemes, one on each core.
//! [`metrics`] are the recorders of the inner loop. Apart from all that, [`mrc`] measures how much caches of any size and
//! policy would miss. Nothing here decides where a block lives.

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
pub mod results;
pub mod setup;
pub mod simulator;
pub mod survey;
pub mod tree;
pub mod validation;
pub mod wear_levelling;
pub mod workload;
