//! Sweep: many simulations, described by one file.
//!
//! A [`grid`] lists traces, schemes, options and settings; each combination is a job. A job is a
//! pure function: its [`key`] is a digest of everything that its result depends on. A [`shard`] is
//! a part of the jobs, for one of several machines. The [`store`] is a folder with the results of
//! finished jobs, by key; a [`mod@table`] shows their main figures.
//!
//! Nothing here simulates. A driver runs the jobs whose key is not in the store.

pub mod grid;
pub mod key;
mod parquet;
pub mod shard;
pub mod store;
pub mod table;

/// Reasons for which a sweep cannot begin: a message that names the object, the value and the
/// remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SweepError(pub String);

impl SweepError {
    /// Returns an error with `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
