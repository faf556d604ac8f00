//! The command line of Bimetal.
//!
//! Here live the frame ([`cli`]), one file a command (`commands/`) and what several of them share: options
//! ([`options`]), files to set options ([`config`]), output ([`output`]), progress bars ([`progress`]), the table of a
//! comparison ([`table`]) and its report as a page ([`report`]). What a command computes lives in the crates below; here
//! it is only asked for and shown.
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
mod trees;
mod volume;
mod workloads;
