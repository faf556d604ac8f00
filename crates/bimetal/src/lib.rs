//! The command line of Bimetal.
//!
//! This crate has the frame ([`cli`]), one file per command (`commands/`) and the parts that
//! commands share: options ([`options`]), files that set options ([`config`]), names that a user
//! types (`names`), the run of a simulation (`experiment`), lifetimes in words (`life`), the
//! choices that nothing beats (`choices`), output ([`output`]), progress bars ([`progress`]),
//! drives for sale ([`drives`]), the table of a comparison ([`table`], and `exported_table` for
//! other programs) and its report as a page ([`report`]). The other crates compute; this crate
//! calls them and shows the results.
//!
//! Read first: [`cli`], then one of `commands/`.

mod choices;
pub mod cli;
mod commands;
pub mod config;
pub mod drives;
mod emulated_files;
pub mod error;
mod experiment;
mod exported_table;
mod files;
mod geometric;
pub mod in_memory;
mod kept;
pub mod library;
mod life;
mod memory;
mod names;
pub mod options;
pub mod output;
mod own_drives;
mod prices;
pub mod progress;
mod replay;
pub mod report;
pub mod sample;
mod self_check;
mod sheet;
mod standard_input;
pub mod table;
mod target;
mod trace_file;
mod trace_workload;
mod trees;
mod volume;
mod workloads;
