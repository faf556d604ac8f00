//! One file per command: its arguments, and the display of its result. The other crates compute the
//! result.
//!
//! To add a command, write a file with `Arguments` and `run`. `Arguments` is a clap `Args` whose
//! doc comment is the help text, with an example at its end. For a new command, name its file in
//! this module, and add a line to the table in `cli.rs`.

pub(crate) mod acknowledge;
pub(crate) mod analyze;
pub(crate) mod attach;
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod detach;
pub(crate) mod drain;
pub(crate) mod dump;
pub(crate) mod extract;
pub(crate) mod fault;
pub(crate) mod fleet;
pub(crate) mod formats;
pub(crate) mod generate;
pub(crate) mod man;
pub(crate) mod mrc;
pub(crate) mod optimize;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod profiles;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod rescue;
pub(crate) mod resize;
pub(crate) mod schema;
pub(crate) mod schemes;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod upgrade;
pub(crate) mod validate;
