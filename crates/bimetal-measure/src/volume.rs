//! Figures of a volume from its counters over a span of time: the warm-up excluded, or since a
//! server began.
//!
//! A block counts once for each request that touches it.

use std::collections::BTreeMap;

use bimetal_core::layout::{Layout, Role};
use bimetal_core::scheme::{Holds, Reason, SchemeInfo};
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Statistics;
use serde::{Deserialize, Serialize};

use crate::share;

/// Share of blocks that SSDs served; every member that is flash counts as an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HitRatio {
    /// Share of the blocks read.
    pub read: Option<f64>,
    /// Half the 95 % interval of `read`.
    pub read_pm: Option<f64>,
    /// Share of the blocks written.
    pub write: Option<f64>,
    /// Half the 95 % interval of `write`.
    pub write_pm: Option<f64>,
}

/// Background moves in batches: all blocks that move for the same reason at once are a batch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Migration {
    /// Number of batches; null if the scheme never moves anything.
    pub count: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Mean seconds between the starts of two successive batches; null with fewer than two.
    pub mean_interval_s: Option<f64>,
    /// Mean bytes of a batch; null if no batch was moved.
    pub mean_bytes: Option<f64>,
}

/// Properties of a volume that decide which figures apply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Set if write savings apply to the volume: for Griffin, and for the scheme to which Griffin
    /// is compared.
    about_write_savings: bool,
    /// For each member, true if it is flash.
    is_flash: Vec<bool>,
    /// Set if a block lies in the same place on all members of its group.
    is_array: bool,
    /// Set if blocks can be off home.
    has_slots: bool,
    /// Size of a range that can move to another home.
    range: Option<Bytes>,
}

impl Shape {
    /// Returns the shape of a volume. `is_flash` has a value for each member, in order.
    pub fn of(scheme: &SchemeInfo, layout: &Layout, is_flash: Vec<bool>) -> Self {
        Self { about_write_savings: is_about_write_savings(scheme), is_flash, ..Self::of_inner(layout) }
    }

    /// Returns the shape of a volume that is a member of a volume. The migrations and bypasses of
    /// an inner volume count with those of the outermost volume. An inner volume has no other
    /// figures.
    pub fn of_inner(layout: &Layout) -> Self {
        let block = layout.block.bytes();
        Self {
            about_write_savings: false,
            is_flash: Vec::new(),
            is_array: layout.array.is_some(),
            has_slots: layout.slots.is_some(),
            range: layout.places.as_ref().map(|places| Bytes(places.range_blocks() * block.0)),
        }
    }
}

/// Returns true for Griffin and its baseline: home on the SSD, with a log or alone.
fn is_about_write_savings(scheme: &SchemeInfo) -> bool {
    let log = scheme.members.iter().any(|&(_, holds)| holds == Holds::Log);
    let home_on_ssd = scheme.members.first() == Some(&(Role::Ssd, Holds::Home));
    home_on_ssd && (log || scheme.members.len() == 1)
}

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Counters since the volume was made.
    pub statistics: &'a Statistics,
    /// Number of dirty blocks: blocks whose newest content is off home only.
    pub dirty_blocks: u64,
}

/// Span of time from `before` to `after`, for which figures are computed.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Properties of the volume.
    pub shape: &'a Shape,
    /// Beginning of the span.
    pub before: Moment<'a>,
    /// End of the span.
    pub after: Moment<'a>,
}

impl Span<'_> {
    fn counted(&self, figure: impl Fn(&Statistics) -> u64) -> u64 {
        // A counter of a volume never falls.
        figure(self.after.statistics).saturating_sub(figure(self.before.statistics))
    }

    /// Returns 1 − blocks written to home / blocks written by the host (Griffin 3.2), for Griffin
    /// and its baseline. Blocks that wait in the log count as written home. Blocks that waited in
    /// the log at the beginning of the span were written before the span, and do not count.
    pub fn write_savings(&self) -> Option<f64> {
        let written = self.counted(|statistics| statistics.written_blocks);
        if !self.shape.about_write_savings || written == 0 {
            return None;
        }
        let home = self.counted(|statistics| statistics.home_blocks_written);
        let home_or_waiting = (home + self.after.dirty_blocks) as f64 - self.before.dirty_blocks as f64;
        Some(1.0 - home_or_waiting.max(0.0) / written as f64)
    }

    /// Returns the share of the blocks read that the log served (Griffin 3.2), for Griffin and its
    /// baseline.
    pub fn read_penalty(&self) -> Option<f64> {
        let from_log = self.counted(|statistics| statistics.read_blocks_from_slots);
        let read = self.counted(|statistics| statistics.read_blocks);
        share(from_log, read).filter(|_| self.shape.about_write_savings)
    }

    /// Returns the share of blocks that members on flash served; null if the scheme cannot choose
    /// between members, or an array has members of one kind.
    pub fn ssd_hit_ratio(&self) -> HitRatio {
        let flash = &self.shape.is_flash;
        let one_kind = !flash.contains(&true) || !flash.contains(&false);
        if flash.len() < 2 || (self.shape.is_array && one_kind) {
            return HitRatio::default();
        }
        let on_flash = |by_member: &[u64]| -> u64 {
            flash.iter().zip(by_member).filter(|(is_flash, _)| **is_flash).map(|(_, blocks)| blocks).sum()
        };
        let read = self.counted(|statistics| on_flash(&statistics.read_blocks_by_member));
        let written = self.counted(|statistics| on_flash(&statistics.written_blocks_by_member));
        HitRatio {
            read: share(read, self.counted(|statistics| statistics.read_blocks)),
            write: share(written, self.counted(|statistics| statistics.written_blocks)),
            ..HitRatio::default()
        }
    }
}

impl Migration {
    /// Returns the migrations of a volume and of the volumes that are its members. The first span
    /// is that of the outermost volume. In a scheme whose ranges move, each range that moved to
    /// another home is a batch.
    pub fn of(volumes: &[Span<'_>]) -> Self {
        let Some(outermost) = volumes.first() else { return Self::default() };
        if let Some(range) = outermost.shape.range {
            let count = outermost.counted(|statistics| statistics.relocated_ranges);
            return Self::of_batches(count, Bytes(count * range.0), None);
        }
        if !volumes.iter().any(|volume| volume.shape.has_slots) {
            return Self::default();
        }
        let sum = |figure: fn(&Statistics) -> u64| volumes.iter().map(|volume| volume.counted(figure)).sum();
        let count = sum(|statistics| statistics.migrations.count);
        let bytes = Bytes(sum(|statistics| statistics.migrations.bytes.0));
        Self::of_batches(count, bytes, mean_interval(outermost, count))
    }

    fn of_batches(count: u64, bytes: Bytes, interval: Option<Nanoseconds>) -> Self {
        Self {
            count: Some(count),
            bytes: Some(bytes.0),
            mean_interval_s: interval.map(Nanoseconds::as_seconds_f64),
            mean_bytes: share(bytes.0, count),
        }
    }
}

/// Returns the mean time between the beginnings of two successive migrations, of which there were
/// `count`.
fn mean_interval(outermost: &Span<'_>, count: u64) -> Option<Nanoseconds> {
    let (before, after) = (&outermost.before.statistics.migrations, &outermost.after.statistics.migrations);
    match before.count {
        // The migrations of several volumes are unrelated to each other.
        _ if after.count < count => None,
        0 => after.mean_interval(),
        // The interval that began with the last migration before the span counts.
        _ if count > 0 => Some(Nanoseconds((after.last_at - before.last_at).0 / count)),
        _ => None,
    }
}

/// Returns the number of blocks that bypassed their usual place, by reason, over all volumes.
/// Reasons without blocks are left out.
pub fn bypass(volumes: &[Span<'_>]) -> BTreeMap<String, u64> {
    let mut since = BTreeMap::new();
    for volume in volumes {
        let before = |reason: &Reason| volume.before.statistics.bypassed_blocks.get(reason).copied().unwrap_or(0);
        for (reason, blocks) in &volume.after.statistics.bypassed_blocks {
            *since.entry(reason.0.to_owned()).or_default() += blocks.saturating_sub(before(reason));
        }
    }
    since.retain(|_, blocks: &mut u64| *blocks > 0);
    since
}

#[cfg(test)]
mod tests {
    use bimetal_core::block::BlockSize;
    use bimetal_core::layout::{LayoutRequest, MemberInfo};
    use bimetal_core::schemes;
    use bimetal_core::settings::Settings;

    use super::*;

    /// Returns the shape of a scheme over an SSD of 64 MiB and an HDD of 256 MiB, or over the SSD
    /// alone.
    fn shape(scheme: &str, settings: &[(&str, &str)], is_flash: &[bool]) -> Shape {
        let scheme = schemes::find(scheme).expect("it is in the list");
        let settings = Settings::new(scheme.name, scheme.parameters, settings.iter().copied()).expect("they are right");
        let all = [(Role::Ssd, 64), (Role::Hdd, 256)]
            .map(|(role, mib)| MemberInfo { role, capacity: Bytes::from_mib(mib).sectors() });
        let members = &all[..is_flash.len()];
        let request = LayoutRequest { block: BlockSize::default(), members, units: &[] };
        Shape::of(scheme, &(scheme.layout)(&settings, &request).expect("the drives suit it"), is_flash.to_vec())
    }

    fn before() -> Statistics {
        Statistics {
            read_blocks: 100,
            written_blocks: 1000,
            read_blocks_from_slots: 30,
            read_blocks_by_member: vec![70, 30],
            written_blocks_by_member: vec![200, 800],
            home_blocks_written: 600,
            relocated_ranges: 5,
            ..Statistics::default()
        }
    }

    fn after() -> Statistics {
        Statistics {
            read_blocks: 140,
            written_blocks: 1200,
            read_blocks_from_slots: 40,
            read_blocks_by_member: vec![95, 45],
            written_blocks_by_member: vec![250, 960],
            home_blocks_written: 700,
            relocated_ranges: 12,
            ..Statistics::default()
        }
    }

    fn span<'a>(shape: &'a Shape, before: &'a Statistics, after: &'a Statistics) -> Span<'a> {
        Span {
            shape,
            before: Moment { statistics: before, dirty_blocks: 60 },
            after: Moment { statistics: after, dirty_blocks: 80 },
        }
    }

    #[test]
    fn savings_count_what_waits_at_the_end_and_not_what_waited() {
        let (before, after) = (before(), after());
        let of = |scheme, flash: &[bool]| {
            let shape = shape(scheme, &[], flash);
            let span = span(&shape, &before, &after);
            (span.write_savings(), span.read_penalty())
        };
        // 100 blocks reached home, and 80 wait where 60 had waited; 200 were written.
        assert_eq!(of("griffin", &[true, false]), (Some(1.0 - 120.0 / 200.0), Some(10.0 / 40.0)));
        assert_eq!(of("ssd-only", &[true]), (Some(1.0 - 120.0 / 200.0), Some(10.0 / 40.0)));
        assert_eq!(of("smart-response", &[true, false]), (None, None));
        assert_eq!(of("combo", &[true, false]), (None, None));
    }

    #[test]
    fn savings_are_a_share_and_null_without_writes() {
        let shape = shape("griffin", &[], &[true, false]);
        let (before, after) = (before(), after());
        assert_eq!(span(&shape, &after, &after).write_savings(), None);
        assert_eq!(span(&shape, &after, &after).read_penalty(), None);
        // Blocks that waited, and were discarded: nothing reached home.
        let after = Statistics { home_blocks_written: 600, ..after };
        let discarded = Moment { statistics: &after, dirty_blocks: 10 };
        assert_eq!(Span { after: discarded, ..span(&shape, &before, &after) }.write_savings(), Some(1.0));
    }

    #[test]
    fn hits_are_blocks_of_members_on_flash_whatever_their_role() {
        let (before, after) = (before(), after());
        let hits = |scheme, flash: &[bool]| {
            let hits = span(&shape(scheme, &[], flash), &before, &after).ssd_hit_ratio();
            (hits.read, hits.write)
        };
        assert_eq!(hits("smart-response", &[true, false]), (Some(25.0 / 40.0), Some(50.0 / 200.0)));
        // A log on a second SSD; a scheme of this kind on two disks.
        assert_eq!(hits("griffin", &[true, true]), (Some(40.0 / 40.0), Some(210.0 / 200.0)));
        assert_eq!(hits("griffin", &[false, false]), (Some(0.0), Some(0.0)));
        assert_eq!(hits("ssd-only", &[true]), (None, None));
    }

    /// Members of an array of one kind have the same share by design: there is no choice.
    #[test]
    fn array_of_one_kind_has_no_hit_ratio() {
        let (before, after) = (before(), after());
        let hits = |flash: &[bool]| span(&shape("raid0", &[], flash), &before, &after).ssd_hit_ratio().read;
        assert_eq!([hits(&[true, true]), hits(&[false, false])], [None; 2]);
        assert_eq!(hits(&[true, false]), Some(25.0 / 40.0));
    }

    fn migrations(count: u64, kib: u64, first: u64, last: u64) -> Statistics {
        let mut statistics = Statistics::default();
        (statistics.migrations.count, statistics.migrations.bytes) = (count, Bytes(kib * 1024));
        statistics.migrations.first_at = Nanoseconds::from_seconds(first);
        statistics.migrations.last_at = Nanoseconds::from_seconds(last);
        statistics
    }

    #[test]
    fn migrations_of_the_span_count_with_the_interval_before_them() {
        let shape = shape("griffin", &[], &[true, false]);
        let of = |before: &Statistics, after: &Statistics| {
            let Migration { count, bytes, mean_interval_s, mean_bytes } = Migration::of(&[span(&shape, before, after)]);
            (count, bytes, mean_interval_s, mean_bytes)
        };
        let none = Statistics::default();
        assert_eq!(of(&none, &none), (Some(0), Some(0), None, None));
        assert_eq!(of(&none, &migrations(1, 8, 4, 4)), (Some(1), Some(8192), None, Some(8192.0)));
        assert_eq!(of(&none, &migrations(4, 8, 4, 10)), (Some(4), Some(8192), Some(2.0), Some(2048.0)));
        // Two more, at 13 and 16, after the last at 10.
        let (warm, end) = (migrations(4, 8, 4, 10), migrations(6, 24, 4, 16));
        assert_eq!(of(&warm, &end), (Some(2), Some(16 * 1024), Some(3.0), Some(8192.0)));
        assert_eq!(of(&warm, &warm), (Some(0), Some(0), None, None));
    }

    #[test]
    fn migrations_of_inner_volumes_add_up_without_an_interval() {
        let (outer, inner) = (shape("griffin", &[], &[true, false]), shape("griffin", &[], &[true, false]));
        let (none, one, other) = (Statistics::default(), migrations(3, 8, 0, 4), migrations(2, 4, 1, 9));
        let all = Migration::of(&[span(&outer, &none, &one), span(&inner, &none, &other)]);
        assert_eq!((all.count, all.bytes, all.mean_interval_s), (Some(5), Some(12 * 1024), None));
    }

    #[test]
    fn ranges_that_moved_are_migrations_and_plain_volumes_have_none() {
        let (before, after) = (before(), after());
        let of = |scheme, settings: &[_], flash: &[bool]| {
            let migration = Migration::of(&[span(&shape(scheme, settings, flash), &before, &after)]);
            (migration.count, migration.bytes, migration.mean_bytes)
        };
        let moving = [("strategy", "frequency"), ("range", "1MiB")];
        assert_eq!(of("combo", &moving, &[true, false]), (Some(7), Some(7 << 20), Some(f64::from(1 << 20))));
        assert_eq!(of("combo", &[], &[true, false]), (None, None, None));
        assert_eq!(Migration::of(&[]), Migration::default());
    }

    #[test]
    fn bypasses_add_up_over_volumes_less_those_before() {
        let shape = shape("griffin", &[], &[true, false]);
        let with = |large, draining| Statistics {
            bypassed_blocks: [(Reason("large"), large), (Reason("draining"), draining)].into(),
            ..Statistics::default()
        };
        let (none, warm, end) = (Statistics::default(), with(4, 9), with(10, 9));
        assert_eq!(bypass(&[span(&shape, &warm, &end)]), [("large".to_owned(), 6)].into());
        let all = bypass(&[span(&shape, &warm, &end), span(&shape, &none, &with(1, 2))]);
        assert_eq!(all, [("large".to_owned(), 7), ("draining".to_owned(), 2)].into());
    }
}
