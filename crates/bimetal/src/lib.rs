//! The command line of Bimetal.
//!
//! This crate has the frame ([`cli`]), one file per command (`commands/`) and the parts that
//! commands share: options ([`options`]), files that set options ([`config`]), output ([`output`]),
//! progress bars ([`progress`]), the table of a comparison ([`table`]) and its report as a page
//! ([`report`]). The crates below compute; this crate calls them and shows the results.
//!
//! Read first: [`cli`], then one of `commands/`.

pub mod cli;
mod commands;
pub mod config;
mod emulated_files;
pub mod error;
mod extents;
mod free_space;
mod geometric;
mod memory;
pub mod options;
pub mod output;
pub mod progress;
mod replay;
pub mod report;
pub mod sample;
mod simulation;
pub mod table;
mod target;
mod trace_file;
mod trace_workload;
mod trees;
mod volume;
mod workloads;
