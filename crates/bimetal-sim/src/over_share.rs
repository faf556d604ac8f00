//! Figures of a scheme over the SSD's share of the footprint, which shows how large an SSD a
//! workload needs.

use serde::Serialize;

use crate::results::Run;

/// Shares of the footprint, as percentages.
pub const SHARES: [u64; 5] = [1, 3, 10, 30, 100];

/// Figures of a scheme with an SSD of one share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointOverShare {
    /// Name of the scheme.
    pub scheme: String,
    /// Label of the scheme's run ([`Run::label`]).
    pub label: String,
    /// Percentage of the footprint.
    pub percent: u64,
    /// Size of the SSD in bytes. A scheme whose SSD is home is a whole drive at every share.
    pub ssd_bytes: Option<u64>,
    /// Mean response time in milliseconds.
    pub mean_ms: Option<f64>,
    /// 99th percentile of the response time in milliseconds.
    pub p99_ms: Option<f64>,
    /// Share of the blocks read that the SSD served.
    pub read_hit_ratio: Option<f64>,
    /// Lifetime of the SSD in years; null if it is unknown.
    pub lifetime_years: Option<f64>,
    /// Shortest lifetime of the SSD that the trace leaves possible, in years; null if unknown.
    pub lifetime_least_years: Option<f64>,
}

impl PointOverShare {
    /// Returns the figures of a run.
    pub(crate) fn of(run: &Run, percent: u64) -> Self {
        Self {
            scheme: run.scheme.clone(),
            label: run.label.clone(),
            percent,
            ssd_bytes: run.ssd_bytes,
            mean_ms: run.response_time_ms.all.mean,
            p99_ms: run.response_time_ms.all.p99,
            read_hit_ratio: run.ssd_hit_ratio.read,
            lifetime_years: run.devices.ssd.flash.lifetime_years,
            lifetime_least_years: run.devices.ssd.flash.possible_years().map(|(least, _)| least),
        }
    }
}
