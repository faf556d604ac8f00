//! Flushes: which changes are stable, and which losses a flush has yet to report.

pub(super) mod stability;
