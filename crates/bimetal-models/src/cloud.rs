//! Model of a cloud provider's block volume: limits of requests and of bytes in a second, credits
//! for bursts, and a base latency.
//!
//! A request first waits for its share of the requests a second, then its bytes pass at the rate of
//! bytes, and finally the base latency is added. Requests start in order of arrival. The model has
//! no seek, no wear and no cache: a write that finished is stable.
//!
//! Each limit is a token bucket. Without credit, requests start at even intervals, as a provider's
//! window of less than a second is not known. With credit, requests pass at the rate of bursts
//! while credit lasts, and at the base rate when the credit is used up. The bucket is full at time
//! zero.
//!
//! Latency is constant and the drives behind the limits are always fast. So the highest percentiles
//! of a real volume are higher. Limits of the machine to which the volume is attached are not
//! known.

use std::collections::BTreeMap;

use bimetal_core::operation::{Command, OpKind, Token};
use bimetal_core::units::{Bytes, Nanoseconds, SECTOR_BYTES, Sectors};
use serde::Deserialize;

use crate::hdd::account::Account;
use crate::hdd::pending::Pending;
use crate::profile::{BadFigure, Size};
use crate::statistics::DeviceStatistics;
use crate::{DeviceModel, Finished};

const GIB: f64 = (1_u64 << 30) as f64;

/// Drives behind a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Flash.
    Ssd,
    /// Disks.
    Hdd,
}

/// Figures of a cloud volume. Each field is a key of the profile, with the same name. Rates "for
/// each GiB" count the GiB of the volume's size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudProfile {
    /// Drives behind the volume: `"ssd"` or `"hdd"`.
    pub medium: Medium,
    /// Requests in a second, in addition to those for each GiB; no limit if neither figure is
    /// given.
    pub iops: Option<f64>,
    /// Requests in a second for each GiB.
    pub iops_per_gib: Option<f64>,
    /// Number of requests in a second of the smallest volume.
    pub iops_min: Option<f64>,
    /// Highest number of requests in a second.
    pub iops_max: Option<f64>,
    /// Requests in a second while there is credit.
    pub iops_burst: Option<f64>,
    /// Number of requests above the baseline rate for which a full bucket of burst credit suffices.
    pub iops_credit: Option<f64>,
    /// 10^6 bytes in a second, in addition to those for each GiB; no limit if neither figure is
    /// given.
    pub mb_per_s: Option<f64>,
    /// 10^6 bytes in a second for each GiB.
    pub mb_per_s_per_gib: Option<f64>,
    /// Highest number of 10^6 bytes in a second, bursts included.
    pub mb_per_s_max: Option<f64>,
    /// 10^6 bytes in a second for each GiB while there is credit.
    pub mb_per_s_per_gib_burst: Option<f64>,
    /// Bytes that a full bucket of credit holds for each GiB.
    pub credit_per_gib: Option<Size>,
    /// Longest request that counts as one request of the limit; a longer request counts as several.
    pub request_max: Size,
    /// Smallest number of bytes for which a request counts, unless the request continues the
    /// request before it.
    #[serde(default)]
    pub request_min: Size,
    /// Time of a read that waits for no limit, without its bytes.
    pub read_latency_us: f64,
    /// Time of a write that waits for no limit, without its bytes.
    pub write_latency_us: f64,
}

/// Years of rent that are the price of a cloud volume: `price_usd` in its profile.
pub const RENT_YEARS: f64 = 5.0;

impl CloudProfile {
    /// Checks that a volume of `capacity` can have these figures.
    ///
    /// # Errors
    /// Returns the first figure that is outside its range.
    pub fn check(&self, capacity: Sectors) -> Result<(), BadFigure> {
        for (key, rate) in [
            ("iops", self.iops),
            ("iops_per_gib", self.iops_per_gib),
            ("iops_min", self.iops_min),
            ("iops_max", self.iops_max),
            ("iops_burst", self.iops_burst),
            ("iops_credit", self.iops_credit),
            ("mb_per_s", self.mb_per_s),
            ("mb_per_s_per_gib", self.mb_per_s_per_gib),
            ("mb_per_s_max", self.mb_per_s_max),
            ("mb_per_s_per_gib_burst", self.mb_per_s_per_gib_burst),
        ] {
            if let Some(rate) = rate.filter(|rate| !(1e-6..=1e12).contains(rate)) {
                return Err(BadFigure::new(key, rate, "a number from 0.000001 to 1000000000000"));
            }
        }
        for (key, us) in [("read_latency_us", self.read_latency_us), ("write_latency_us", self.write_latency_us)] {
            if !(0.0..=1e9).contains(&us) {
                return Err(BadFigure::new(key, us, "a number from 0 to 1000000000"));
            }
        }
        if self.request_max.0.0 < SECTOR_BYTES {
            return Err(BadFigure::new("request_max", self.request_max.0, "at least 512 bytes"));
        }
        let needs = |key, other| BadFigure::new(key, "nothing", format!("a figure, because {other} is given"));
        match self {
            Self { iops_burst: Some(_), iops_credit: None, .. } => Err(needs("iops_credit", "iops_burst")),
            Self { iops_burst: None, iops_credit: Some(_), .. } => Err(needs("iops_burst", "iops_credit")),
            Self { mb_per_s_per_gib_burst: Some(_), credit_per_gib: None, .. } => {
                Err(needs("credit_per_gib", "mb_per_s_per_gib_burst"))
            }
            Self { mb_per_s_per_gib_burst: None, credit_per_gib: Some(_), .. } => {
                Err(needs("mb_per_s_per_gib_burst", "credit_per_gib"))
            }
            Self { iops_burst: Some(_), .. } if self.iops_of(capacity).is_none() => Err(needs("iops", "iops_burst")),
            Self { mb_per_s_per_gib_burst: Some(_), .. } if self.mb_per_s_of(capacity).is_none() => {
                Err(needs("mb_per_s_per_gib", "mb_per_s_per_gib_burst"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the requests a second of a volume of this size, without bursts; `None` for no limit.
    pub fn iops_of(&self, size: Sectors) -> Option<f64> {
        let rate = by_size((self.iops, self.iops_per_gib), size)?;
        let most = self.iops_max.unwrap_or(f64::INFINITY);
        Some(rate.max(self.iops_min.unwrap_or(0.0)).min(most))
    }

    /// Returns the 10^6 bytes a second of a volume of this size, without bursts; `None` for no
    /// limit.
    pub fn mb_per_s_of(&self, size: Sectors) -> Option<f64> {
        let rate = by_size((self.mb_per_s, self.mb_per_s_per_gib), size).or(self.mb_per_s_max)?;
        Some(rate.min(self.mb_per_s_max.unwrap_or(f64::INFINITY)))
    }

    fn request_bucket(&self, size: Sectors) -> Option<Bucket> {
        let burst = self.iops_burst.zip(self.iops_credit);
        Some(Bucket::new(self.iops_of(size)?, burst))
    }

    fn byte_bucket(&self, size: Sectors) -> Option<Bucket> {
        let burst = self.mb_per_s_per_gib_burst.zip(self.credit_per_gib).map(|(mb_per_s, credit)| {
            let most = self.mb_per_s_max.unwrap_or(f64::INFINITY);
            ((mb_per_s * gib(size)).min(most) * 1e6, credit.0.0 as f64 * gib(size))
        });
        Some(Bucket::new(self.mb_per_s_of(size)? * 1e6, burst))
    }
}

fn gib(size: Sectors) -> f64 {
    size.bytes().0 as f64 / GIB
}

/// Returns the sum of a fixed rate and a rate for each GiB; `None` if both are missing.
fn by_size((fixed, per_gib): (Option<f64>, Option<f64>), size: Sectors) -> Option<f64> {
    fixed.or(per_gib)?;
    Some(fixed.unwrap_or(0.0) + per_gib.unwrap_or(0.0) * gib(size))
}

/// Token bucket: a base rate, and credit that is spent at a higher rate.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Bucket {
    /// Tokens that flow into the bucket in a second.
    rate: f64,
    /// Tokens that may leave the bucket in a second, at most.
    peak: f64,
    /// Tokens that the bucket holds.
    size: f64,
    /// Tokens in the bucket at `level_at_ns`.
    level: f64,
    level_at_ns: u64,
    /// Time at which the last tokens have left.
    free_at_ns: u64,
}

impl Bucket {
    /// Makes a full bucket. `burst` is the rate while there is credit, and the amount of credit. A
    /// burst rate below the rate is ignored.
    fn new(rate: f64, burst: Option<(f64, f64)>) -> Self {
        let (peak, size) = burst.filter(|(peak, _)| *peak > rate).unwrap_or((rate, 0.0));
        Self { rate, peak, size, level: size, level_at_ns: 0, free_at_ns: 0 }
    }

    /// Takes tokens at `now_ns` or as soon as the bucket has enough tokens. Returns the time at
    /// which the first of these tokens leaves the bucket, and the time at which the last has left.
    fn take(&mut self, now_ns: u64, tokens: f64) -> (u64, u64) {
        let mut start_ns = now_ns.max(self.free_at_ns);
        let needed = tokens.min(self.size);
        let refilled = self.level + self.rate * (start_ns - self.level_at_ns) as f64 / 1e9;
        self.level = refilled.min(self.size);
        if self.level < needed {
            start_ns = later(start_ns, (needed - self.level) / self.rate);
            self.level = needed;
        }
        if self.size > 0.0 {
            self.level -= tokens;
        }
        self.level_at_ns = start_ns;
        self.free_at_ns = later(start_ns, tokens / self.peak);
        (start_ns, self.free_at_ns)
    }
}

fn later(ns: u64, seconds: f64) -> u64 {
    ns.saturating_add((seconds * 1e9).ceil() as u64)
}

/// Model of a cloud volume.
#[derive(Clone, Debug)]
pub struct CloudVolume {
    capacity: Sectors,
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
    request_max: Bytes,
    request_min: Bytes,
    read_latency_ns: u64,
    write_latency_ns: u64,
    /// Sector after the last read or write.
    follows: u64,
    /// Commands under way: by the time at which they finish, then by arrival.
    under_way: BTreeMap<(u64, u64), Pending>,
    arrived: u64,
    account: Account,
}

impl CloudVolume {
    /// Makes the volume that `profile` describes, with `capacity`.
    pub fn new(profile: &CloudProfile, capacity: Sectors) -> Self {
        Self {
            capacity,
            requests: profile.request_bucket(capacity),
            bytes: profile.byte_bucket(capacity),
            request_max: profile.request_max.0,
            request_min: profile.request_min.0,
            read_latency_ns: (profile.read_latency_us * 1e3) as u64,
            write_latency_ns: (profile.write_latency_us * 1e3) as u64,
            follows: 0,
            under_way: BTreeMap::new(),
            arrived: 0,
            account: Account::default(),
        }
    }

    /// Returns the time at which all bytes of a read or write have passed.
    fn pass(&mut self, now_ns: u64, pending: &Pending) -> u64 {
        let bytes = pending.sectors * SECTOR_BYTES;
        let counted = if pending.start == self.follows { bytes } else { bytes.max(self.request_min.0) };
        self.follows = pending.end();
        let requests = bytes.div_ceil(self.request_max.0).max(1);
        let start_ns = self.requests.as_mut().map_or(now_ns, |bucket| bucket.take(now_ns, requests as f64).0);
        self.bytes.as_mut().map_or(start_ns, |bucket| bucket.take(start_ns, counted as f64).1)
    }
}

impl DeviceModel for CloudVolume {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, now: Nanoseconds, token: Token, command: Command) {
        assert!(command.range.end() <= self.capacity, "{command:?} is not on a volume of {}", self.capacity);
        if self.under_way.is_empty() {
            self.account.begin_busy(now.0);
        }
        let Command { kind, range, fua } = command;
        let pending = Pending { token, kind, fua, start: range.start.0, sectors: range.len.0, ready_ns: now.0 };
        let at_ns = match kind {
            OpKind::Read if pending.sectors > 0 => self.pass(now.0, &pending).saturating_add(self.read_latency_ns),
            OpKind::Write | OpKind::WriteZeroes if pending.sectors > 0 => {
                self.pass(now.0, &pending).saturating_add(self.write_latency_ns)
            }
            _ => now.0.saturating_add(self.write_latency_ns),
        };
        self.under_way.insert((at_ns, self.arrived), pending);
        self.arrived += 1;
    }

    fn next_event(&self) -> Option<Nanoseconds> {
        self.under_way.keys().next().map(|(at_ns, _)| Nanoseconds(*at_ns))
    }

    fn advance(&mut self, now: Nanoseconds, finished: &mut Vec<Finished>) {
        while let Some(next) = self.under_way.first_entry()
            && next.key().0 <= now.0
        {
            let ((at_ns, _), pending) = next.remove_entry();
            finished.push(self.account.finish(&pending, at_ns));
            if self.under_way.is_empty() {
                self.account.end_busy(at_ns);
            }
        }
    }

    fn statistics(&self, now: Nanoseconds) -> DeviceStatistics {
        self.account.counters_at(now, self.under_way.is_empty())
    }
}
