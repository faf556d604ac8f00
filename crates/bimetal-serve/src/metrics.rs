//! Metrics for Prometheus: every figure of `status` that changes, as text, made anew for each
//! scrape.
//!
//! Names follow Prometheus: The name of a metric is `bimetal_`, a noun, the unit, and `_total` for
//! counters. Every metric has the label `volume`. The dashboard in `contrib/grafana` uses the names
//! of these metrics.

use std::borrow::Cow;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bimetal_core::operation::OpKind;
use bimetal_measure::durations::Durations;
use bimetal_volumes::about::About;
use bimetal_volumes::status::{Progress, Status};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::snapshot::{KINDS, Latencies, Snapshot};
use crate::status;

/// Content type of a [`page`] in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0";

/// Upper bounds of the buckets of a duration, in seconds: from a hit in a fast drive to a disk that
/// retries.
const BOUNDS: [f64; 17] = [
    50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1.0, 2.5, 5.0, 10.0,
];

/// Returns every metric of a server as text.
pub fn page(about: &About, snapshot: &Snapshot, scrub: Option<Progress>) -> String {
    let volume = (Cow::Borrowed("volume"), Cow::Owned(about.name.clone()));
    let mut registry = Registry::with_prefix_and_labels("bimetal", [volume].into_iter());
    let status = Status { scrub, ..status::of(about, snapshot) };
    registry.register_collector(Box::new(Page { status, latencies: snapshot.latencies.clone(), clock: now() }));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Figures that a page needs.
#[derive(Debug)]
struct Page {
    status: Status,
    latencies: Latencies,
    clock: f64,
}

/// Labels of one value.
type Labels = Vec<(&'static str, String)>;

/// States of a volume while it is served.
const STATES: [&str; 5] = ["serving", "degraded", "failed", "draining", "stopping"];

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        self.encode_volume(&mut sheet)?;
        self.encode_requests(&mut sheet)?;
        self.encode_engine(&mut sheet)?;
        self.encode_members(&mut sheet)?;
        self.encode_scrubs(&mut sheet)?;
        self.encode_wear(&mut sheet)
    }
}

impl Page {
    fn encode_volume(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let Status { state, scheme, uptime_s, clients, requests_under_way, dirty_bytes, dirty_oldest_s, .. } =
            &self.status;
        let slots = &self.status.slots;
        let whole = |value: &Option<u64>| value.map(|value| value as f64);
        sheet.gauges("scheme", "Scheme of the volume, as a label", [(vec![("scheme", scheme.clone())], Some(1.0))])?;
        let is = |one: &str| Some(f64::from(u8::from(one == state)));
        let states = STATES.map(|one| (vec![("state", one.to_owned())], is(one)));
        sheet.gauges("state", "1 for the present state of the volume", states)?;
        sheet.gauge("uptime_seconds", "Seconds since the server began", *uptime_s)?;
        sheet.gauge("clients", "Clients that are connected", whole(clients))?;
        sheet.gauge("clients_max", "Clients that may be connected", whole(&self.status.clients_max))?;
        let refused = self.status.clients_refused;
        sheet.counter("clients_refused", "Clients refused because clients_max were connected", refused)?;
        sheet.gauge("requests_under_way", "Requests not yet answered", whole(requests_under_way))?;
        sheet.gauge("exported_bytes", "Size of the exported address space", whole(&self.status.exported_bytes))?;
        sheet.gauge("dirty_bytes", "Content that is only off home", whole(dirty_bytes))?;
        sheet.gauge(
            "dirty_oldest_seconds",
            "Age that no dirty content exceeds; absent if nothing is dirty",
            *dirty_oldest_s,
        )?;
        sheet.gauge("slots_bytes", "Size of all slots off home", whole(&slots.bytes))?;
        sheet.gauge("slots_used_bytes", "Size of the slots in use", whole(&slots.used_bytes))
    }

    fn encode_requests(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let requests = &self.status.requests;
        let of_kind = |kind: OpKind| (vec![("kind", kind_name(kind).to_owned())], self.latencies.requests(kind));
        sheet.durations(
            "request_duration_seconds",
            "Time from the arrival of a request to its answer",
            KINDS.map(of_kind),
        )?;
        let bytes = [("read", requests.read_bytes), ("write", requests.write_bytes)];
        let bytes = bytes.map(|(kind, bytes)| (vec![("kind", kind.to_owned())], bytes));
        sheet.counters("request_bytes", "Bytes that requests read and wrote", bytes)?;
        sheet.counter("requests_failed", "Requests answered with an error", requests.failed)?;
        let bypass = self.status.bypass.iter();
        let bypass = bypass.map(|(reason, &blocks)| (vec![("reason", reason.clone())], Some(blocks)));
        sheet.counters("bypassed_blocks", "Blocks that bypassed the cache, by reason", bypass)
    }

    fn encode_engine(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let Status { engine, migration, ssd_hit_ratio, write_savings, read_penalty, .. } = &self.status;
        sheet.counter("migrations", "Migrations and other write-backs that began", migration.count)?;
        sheet.counter("migration_bytes", "Bytes that migrations and other write-backs moved", migration.bytes)?;
        sheet.counter("commits", "Commits of the journal", engine.commits)?;
        sheet.counter("checkpoints", "Checkpoints of the tables", engine.checkpoints)?;
        sheet.counter("promoted_blocks", "Blocks copied into slots because they were read", engine.promoted_blocks)?;
        sheet.counter("evicted_blocks", "Clean copies evicted", engine.evicted_blocks)?;
        sheet.counter(
            "waited_requests",
            "Requests that waited for other requests, a move or a free slot",
            engine.waited,
        )?;
        let Status { lost, checksum_errors, last_scrub, .. } = &self.status;
        sheet.counter("checksum_errors", "Blocks read off home that failed their checksum", Some(*checksum_errors))?;
        sheet.gauge("lost_blocks", "Blocks whose newest content no drive has", Some(lost.blocks as f64))?;
        sheet.gauge(
            "damaged_blocks",
            "Bad blocks that are not lost, until acknowledged",
            Some(lost.other_blocks as f64),
        )?;
        sheet.gauge("accepted_losses", "Accepted losses, until acknowledged", Some(lost.accepted_losses as f64))?;
        let scrubbed = last_scrub.as_ref().map(|scrub| scrub.at_s as f64);
        sheet.gauge(
            "last_scrub_timestamp_seconds",
            "Time at which the last scrub ended; absent if there was none",
            scrubbed,
        )?;
        sheet.counter(
            "reads_repaired",
            "Reads served from home because a copy off home failed",
            engine.reads_repaired,
        )?;
        let hits = [("read", ssd_hit_ratio.read), ("write", ssd_hit_ratio.write)];
        let hits = hits.map(|(kind, share)| (vec![("kind", kind.to_owned())], share));
        sheet.gauges("ssd_hit_ratio", "Share of blocks that the SSD served since the server began", hits)?;
        sheet.gauge("write_savings_ratio", "Share of written blocks that never reached home", *write_savings)?;
        sheet.gauge("read_penalty_ratio", "Share of read blocks that the log served", *read_penalty)
    }

    fn encode_members(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let members = || self.status.members.iter();
        let named = |id: &str| vec![("member", id.to_owned())];
        let of_kind = |id: &str, kind: &str| vec![("member", id.to_owned()), ("kind", kind.to_owned())];
        let up = members().map(|member| (named(&member.id), Some(f64::from(u8::from(member.state == "online")))));
        sheet.gauges("member_up", "1 while the drive is online, otherwise 0", up)?;
        let size = members().map(|member| (named(&member.id), Some(member.bytes as f64)));
        sheet.gauges("member_size_bytes", "Size of the drive", size)?;
        let bytes = members().flat_map(|member| {
            [("read", member.read_bytes), ("write", member.write_bytes)]
                .map(|(kind, bytes)| (of_kind(&member.id, kind), bytes))
        });
        sheet.counters("member_bytes", "Bytes read from and written to the drive", bytes)?;
        let metadata = members().map(|member| (named(&member.id), member.metadata_bytes));
        sheet.counters("member_metadata_bytes", "Bytes of metadata that the engine wrote to the drive", metadata)?;
        let bad = members().map(|member| (named(&member.id), member.bad_metadata_pages.map(|pages| pages as f64)));
        sheet.gauges(
            "member_bad_metadata_pages",
            "Pages of metadata that were bad in the last scrub, or else at the start",
            bad,
        )?;
        let errors = members().map(|member| (named(&member.id), member.errors));
        sheet.counters("member_errors", "Operations of the drive that failed", errors)?;
        let times = members().enumerate().flat_map(|(at, member)| {
            KINDS.map(|kind| (of_kind(&member.id, kind_name(kind)), self.latencies.member(at, kind)))
        });
        sheet.durations("member_operation_duration_seconds", "Time that operations of the drive took", times)
    }

    fn encode_scrubs(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let progress = self.status.scrub.as_ref().map(|scrub| {
            let all = scrub.done_bytes + scrub.left_bytes;
            if all == 0 { 1.0 } else { scrub.done_bytes as f64 / all as f64 }
        });
        sheet.gauge(
            "scrub_progress_ratio",
            "Share of the present scrub that is done; absent without a scrub",
            progress,
        )?;
        let Some(last) = &self.status.last_scrub else { return Ok(()) };
        sheet.gauge("last_scrub_duration_seconds", "Duration of the last scrub", Some(last.took_s))?;
        sheet.gauge("last_scrub_read_bytes", "Bytes that the last scrub read", Some(last.read_bytes as f64))?;
        sheet.gauge("last_scrub_bad_blocks", "Bad blocks that the last scrub found", Some(last.bad_blocks as f64))?;
        let lost = Some(last.lost_blocks as f64);
        sheet.gauge("last_scrub_lost_blocks", "Blocks for which the last scrub found no good copy", lost)
    }

    fn encode_wear(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let wear = || self.status.wear.iter();
        let named = |id: &str| vec![("member", id.to_owned())];
        let written = wear().map(|wear| (named(&wear.id), Some(wear.write_bytes)));
        sheet.counters("flash_write_bytes", "Bytes written to flash since the server began", written)?;
        let lifetime = wear().map(|wear| (named(&wear.id), Some(wear.lifetime_write_bytes as f64)));
        sheet.gauges(
            "flash_lifetime_write_bytes",
            "Bytes written to flash since the drive became a member",
            lifetime,
        )?;
        let used = wear().map(|wear| (named(&wear.id), wear.rated_used));
        sheet.gauges("flash_rated_used_ratio", "Share of the rated writes that is used up; absent if unknown", used)?;
        let rated = wear().map(|wear| (named(&wear.id), wear.rated_write_bytes.map(|bytes| bytes as f64)));
        sheet.gauges(
            "flash_rated_write_bytes",
            "Bytes that the drive's maker rates it for; absent if unknown",
            rated,
        )?;
        let seconds = |years: f64| self.clock + years * 365.25 * 86_400.0;
        let end = wear().map(|wear| (named(&wear.id), wear.rated_years_left.map(seconds)));
        sheet.gauges(
            "flash_end_of_life_timestamp_seconds",
            "Time at which the rated writes are used up at this rate; absent if unknown",
            end,
        )
    }
}

fn kind_name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Flush => "flush",
        OpKind::Discard => "discard",
        OpKind::WriteZeroes => "write-zeroes",
        OpKind::Hint => "hint",
    }
}

/// Encoder of metrics; a metric without a value is left out.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        let metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn counter(&mut self, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        let metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, Option<f64>)>,
    ) -> fmt::Result {
        let values = values.into_iter().filter_map(|(labels, value)| Some((labels, value?)));
        self.family(name, help, MetricType::Gauge, values, |value, metric| ConstGauge::new(value).encode(metric))
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, Option<u64>)>,
    ) -> fmt::Result {
        let values = values.into_iter().filter_map(|(labels, value)| Some((labels, value?)));
        self.family(name, help, MetricType::Counter, values, |value, metric| ConstCounter::new(value).encode(metric))
    }

    fn durations<'h>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, Option<&'h Durations>)>,
    ) -> fmt::Result {
        let values = values.into_iter().filter_map(|(labels, value)| Some((labels, value?)));
        self.family(name, help, MetricType::Histogram, values, |durations, mut metric| {
            let (sum, buckets) = (durations.sum_seconds(), durations.buckets(&BOUNDS));
            metric.encode_histogram::<NoLabelSet>(sum, durations.count(), &buckets, None)
        })
    }

    fn family<V>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl Iterator<Item = (Labels, V)>,
        encode: impl Fn(V, MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in values {
            encode(value, metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
