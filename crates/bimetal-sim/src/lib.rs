//! The simulator runs the engine of `bimetal-core` over the drives of `bimetal-models`, in virtual
//! time, and measures the runs.
//!
//! A run proceeds as follows. A [`workload`] is surveyed once ([`survey`]: number of requests,
//! addresses used). Drives are chosen and sized for a scheme ([`setup`], or for a [`tree`] of
//! volumes). The [`simulator`] plays the workload over them, and [`figures`] turns the counters
//! into the [`results`] document; [`lifetime`] finds how long the flash lasts. An [`experiment`]
//! makes such runs for several schemes, one on each core, and repeats runs with a [`disturbance`]
//! for the [`uncertainty`] of their figures. [`warmup`] finds when a cache is warm. [`metrics`] are
//! the recorders of the inner loop. [`placement`] searches, by many runs, for the files that belong
//! on an SSD; [`file_places`] sorts files by simple strategies. Independently of the runs, [`mrc`]
//! measures the miss ratios of caches of any size and policy. No module of this crate decides where
//! a block is stored.
//!
//! # Example
//!
//! 2,000 requests over 16 MiB, three reads for each write, on the disk alone and with the default
//! SSD as its cache:
//!
//! ```
//! use bimetal_core::schemes;
//! use bimetal_core::units::Bytes;
//! use bimetal_sim::experiment::{Experiment, NoProgress};
//! use bimetal_sim::setup::Choices;
//! use bimetal_sim::simulator::Replay;
//! use bimetal_trace::Request;
//! use bimetal_trace::synthetic::{Generator, WorkloadSpec};
//!
//! let spec = WorkloadSpec { read_fraction: 0.75, ..WorkloadSpec::new(2000, Bytes::from_mib(16)) };
//! let workload: Vec<Request> = Generator::new(&[spec], 1)?.collect();
//! let schemes = ["hdd-only", "smart-response"]
//!     .map(|name| schemes::find(name).expect("it is in the list").into());
//! let experiment = Experiment {
//!     workload: &workload,
//!     schemes: schemes.to_vec(),
//!     trees: Vec::new(),
//!     choices: Choices::default(),
//!     replay: Replay::Timed { speedup: 1.0 },
//!     warmup: 0.5,
//!     keep: None,
//! };
//! let document = experiment.run(&NoProgress, |_, trace| trace)?;
//!
//! let means =
//!     document.runs.iter().map(|run| run.response_time_ms.read.mean.expect("there are reads"));
//! let [disk, cached] = means.collect::<Vec<f64>>()[..] else { panic!("a run of each scheme") };
//! println!("a read takes {disk:.2} ms on the disk, and {cached:.2} ms with a cache");
//! assert!(0.0 < cached && cached < disk);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod belady;
pub mod block_layer;
pub mod csv;
pub mod disturbance;
pub mod experiment;
pub mod figures;
pub mod file_places;
pub mod findings;
mod foresight;
pub mod geometric_means;
mod hints;
mod host;
mod keys;
pub mod lifetime;
pub mod limits;
pub mod market;
mod member_name;
pub mod metrics;
pub mod mrc;
pub mod nameless_file;
pub mod outside;
pub mod over_share;
pub mod ownership;
pub mod parts;
pub mod placement;
pub mod results;
mod saved_state;
pub mod scheme_choice;
pub mod setup;
pub mod simulator;
mod sizing;
pub mod survey;
pub mod tree;
pub mod uncertainty;
mod uses;
pub mod validation;
pub mod warmup;
pub mod workload;
