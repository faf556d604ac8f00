//! Headings under which `--help` groups the options of a simulation.

/// Trace: its format, and the requests that are taken from it.
pub(crate) const TRACE: &str = "Trace";

/// Drives: models, sizes, prices and settings.
pub(crate) const DRIVES: &str = "Drives";

/// Run: issue of the requests, and their measurement.
pub(crate) const RUN: &str = "Run";

/// Budgets of a plan.
pub(crate) const BUDGETS: &str = "Budgets";

/// Search for a plan.
pub(crate) const SEARCH: &str = "Search";

/// Output: its form, and its files.
pub(crate) const OUTPUT: &str = "Output";
