//! Computes the figures of the document from counters. Counters are differences since the end of
//! the warm-up.

use std::collections::BTreeMap;

use bimetal_core::layout::Role;
use bimetal_core::scheme::Holds;
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_core::volume::Statistics;
use bimetal_measure::sequentiality::WriteSequentiality;
use bimetal_measure::share;
use bimetal_measure::throughput::Throughput;
use bimetal_measure::volume::{Migration, Moment, Shape, Span, bypass};
use bimetal_models::DeviceStatistics;
use bimetal_models::endurance::{Endurance, Lifetime, LimitedBy, drive_writes_per_day};
use bimetal_models::hdd::Recording;
use bimetal_models::profile::{Body, Profile};
use bimetal_models::statistics::FlashStatistics;

use crate::block_layer::{BlockLayerCounts, BlockLayerSettings};
use crate::findings::{MeasuredPart, NoChoice, puts_off_all_work};
use crate::lifetime::{Life, Unknown};
use crate::results::{
    BlockLayerFigures, Coefficient, Cost, Devices, EraseCount, FlashFigures, HddFigures, HeadTimeFigures, Member,
    MemberFigures, PredictionError, Provenance, Run, RunSpeed, Series, SsdFigures,
};
use crate::setup::{Drive, Setup};
use crate::simulator::{Measured, Replay, head_time};

/// Returns the figures of one run.
pub fn run_of(setup: &Setup, measured: &Measured, replay: Replay, speed: RunSpeed) -> Run {
    let members: Vec<Member> = (0..setup.drives.len()).map(|id| member(setup, measured, replay, id)).collect();
    let throughput = Throughput::of(measured.requests, measured.bytes, measured.end - measured.start);
    let shapes = shapes(setup);
    let spans = spans(setup, measured, &shapes);
    let size_of = |ssd: bool| {
        let sizes = setup.drives.iter().filter(|drive| is_flash(drive) == ssd).map(|drive| drive.size.0);
        Some(sizes.sum::<u64>()).filter(|&size| size > 0)
    };
    let profile_of =
        |ssd: bool| setup.drives.iter().find(|drive| is_flash(drive) == ssd).map(|drive| drive.profile.name.clone());
    let run = Run {
        scheme: setup.name.clone(),
        label: setup.name.clone(),
        sizing: setup.sizing,
        ssd: profile_of(true),
        hdd: profile_of(false),
        ssd_bytes: size_of(true),
        hdd_bytes: size_of(false),
        exported_bytes: setup.tree.units().map(|unit| unit.bytes().0).sum(),
        settings: settings(setup),
        assumed: setup.assumed.clone(),
        response_time_ms: measured.response.response_times(),
        throughput,
        queue_depth_mean: measured.queue_depth.mean(),
        queue_depth_max: Some(measured.queue_depth.max()),
        behind_fraction: measured.backlog.share(measured.end),
        behind_since_s: measured.backlog.first().map(Nanoseconds::as_seconds_f64),
        block_layer: measured.block_layer.map(block_layer),
        write_savings: spans[0].write_savings(),
        read_penalty: spans[0].read_penalty(),
        ssd_hit_ratio: spans[0].ssd_hit_ratio(),
        migration: Migration::of(&spans),
        ssd_write_sequentiality: sequentiality(setup, measured),
        bypass: bypass(&spans),
        prediction_error: prediction_error(setup),
        devices: Devices {
            ssd: ssd_total(&members),
            hdd: HddFigures { disk_head_time: disk_head_time(setup, measured), ..hdd_total(&members) },
        },
        cost: cost(setup, throughput, replay),
        series: series(setup, measured),
        members,
        run: speed,
        no_choice: None,
    };
    let part = measured_part(setup, measured, replay);
    let puts_off = puts_off_all_work(&run.scheme, &run.settings, &part);
    Run { no_choice: puts_off.then_some(NoChoice::NothingWrittenHome), ..run }
}

fn measured_part(setup: &Setup, measured: &Measured, replay: Replay) -> MeasuredPart {
    let (now, before) = (setup.volume().statistics(), &measured.before.0[0]);
    MeasuredPart {
        replay,
        replayed: measured.end,
        host_blocks: now.written_blocks - before.written_blocks,
        home_blocks: now.home_blocks_written - before.home_blocks_written,
    }
}

fn block_layer((settings, counts): (BlockLayerSettings, BlockLayerCounts)) -> BlockLayerFigures {
    let sector = bimetal_core::units::SECTOR_BYTES;
    BlockLayerFigures {
        queued: counts.queued,
        issued: counts.issued,
        mean_issued_bytes: share(counts.moved_sectors * sector, counts.moves),
        mean_ms: (counts.moves > 0).then(|| counts.took.as_millis_f64() / counts.moves as f64),
        max_sectors_kb: settings.max_sectors * sector / 1024,
        scheduler: settings.scheduler.to_string(),
        queue_depth: settings.queue_depth,
    }
}

fn prediction_error(setup: &Setup) -> Option<PredictionError> {
    let error = setup.volume().prediction_error()?;
    let coefficients = error.coefficients.iter().flatten().map(|coefficient| {
        let bimetal_core::scheme::Coefficient { term, value, standard_error } = *coefficient;
        (term.to_owned(), Coefficient { value, standard_error })
    });
    Some(PredictionError {
        mean_ms: error.mean_ms,
        r2: error.r2,
        last_value_mean_ms: error.last_value_mean_ms,
        regression_mean_ms: error.regression_mean_ms,
        by_regression: error.by_regression,
        training_r2: error.training_r2,
        coefficients: coefficients.collect(),
    })
}

/// Returns the parameters of all volumes; the parameters of an inner volume have the volume's name
/// in front.
fn settings(setup: &Setup) -> BTreeMap<String, String> {
    let own = setup.settings.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.chain(setup.inner_settings.iter().map(|(key, value)| (key.clone(), value.clone()))).collect()
}

fn is_flash(drive: &Drive) -> bool {
    drive.profile.is_solid_state()
}

/// Returns true if a volume has slots. In a volume with slots, blocks can be off home, be moved,
/// and be served by either drive.
fn has_slots(setup: &Setup) -> bool {
    setup.tree.volumes().any(|volume| volume.view().layout.slots.is_some())
}

/// Returns the head time of all disks together; `None` without a disk.
fn disk_head_time(setup: &Setup, measured: &Measured) -> Option<HeadTimeFigures> {
    setup.drives.iter().find(|drive| drive.profile.hdd().is_some())?;
    let before = measured.before.1.iter().filter_map(|drive| Some(drive.hdd?.head_time.0)).sum();
    let measured_time = head_time(setup, measured.end).0.saturating_sub(before);
    let mean = share(measured_time, measured.end.saturating_sub(measured.start).0);
    Some(HeadTimeFigures { mean, peak_10min: measured.head_time.peak() })
}

/// Returns the shape of each volume, the outermost first.
fn shapes(setup: &Setup) -> Vec<Shape> {
    let outermost = setup.volume().view();
    let drive_of =
        |member: usize| setup.drives.iter().find(|drive| (drive.volume, usize::from(drive.member.0)) == (0, member));
    // A member that is itself a volume counts by its role in this volume.
    let members = outermost.members.iter().enumerate();
    let is_fast = |drive: &Drive| drive.profile.is_solid_state();
    let fast = members.map(|(at, member)| drive_of(at).map_or(member.role == Role::Ssd, is_fast));
    let mut shapes = vec![Shape::of(setup.scheme, &outermost.layout, fast.collect())];
    shapes.extend(setup.tree.volumes().skip(1).map(|volume| Shape::of_inner(&volume.view().layout)));
    shapes
}

/// Returns the span of the measurement for each volume, the outermost first.
fn spans<'a>(setup: &'a Setup, measured: &'a Measured, shapes: &'a [Shape]) -> Vec<Span<'a>> {
    let volumes = setup.tree.volumes().zip(&measured.before.0).zip(shapes).enumerate();
    let spans = volumes.map(|(at, ((volume, before), shape))| Span {
        shape,
        before: Moment { statistics: before, dirty_blocks: if at == 0 { measured.dirty_blocks_before } else { 0 } },
        after: Moment { statistics: volume.statistics(), dirty_blocks: volume.view().map.dirty_blocks().into() },
    });
    spans.collect()
}

fn sequentiality(setup: &Setup, measured: &Measured) -> Option<f64> {
    let flash = || setup.drives.iter().zip(&measured.sequentiality).filter(|(drive, _)| is_flash(drive));
    let all: Vec<Holds> = flash().map(|(drive, _)| drive.holds).collect();
    let counted = flash().filter(|(drive, _)| has_sequentiality(drive.holds, &all));
    WriteSequentiality::of_all(counted.map(|(_, counts)| counts)).fraction()
}

/// Returns true if the writes of a flash drive count for the sequentiality. If the volume has other
/// flash, a log does not count: every scheme appends in order.
fn has_sequentiality(holds: Holds, all: &[Holds]) -> bool {
    holds != Holds::Log || all.iter().all(|&other| other == Holds::Log)
}

fn member(setup: &Setup, measured: &Measured, replay: Replay, id: usize) -> Member {
    let drive = &setup.drives[id];
    let before = &measured.before.1[id];
    let after = drive.model.statistics(measured.end);
    let span = measured.end - measured.start;
    let metadata = |statistics: &Statistics| statistics.metadata_bytes[usize::from(drive.member.0)].0;
    let volume = setup.tree.volumes().nth(drive.volume).map_or(0, |volume| metadata(volume.statistics()));
    let price = drive.price.as_ref();
    Member {
        id: drive.id.clone(),
        volume: drive.volume_name.clone(),
        role: holds_name(drive.holds).to_owned(),
        profile: drive.profile.name.clone(),
        bytes: drive.size.0,
        drives: drive.bought,
        bought_bytes: drive.bought_size.0,
        metadata_bytes: volume - metadata(&measured.before.0[drive.volume]),
        figures: match &after.flash {
            Some(flash) => {
                let mut figures = ssd_figures(before, &after, flash, span, measured.end);
                note_life_of_run(&mut figures, drive, replay, span);
                MemberFigures::Ssd(Box::new(figures))
            }
            None if is_flash(drive) => MemberFigures::Ssd(Box::new(rented_figures(before, &after, span))),
            None => MemberFigures::Hdd(hdd_figures(before, &after, span, staging_area(&drive.profile))),
        },
        provenance: Provenance {
            description: Some(drive.profile.summary.clone()),
            source: drive.profile.sources.get("capacity").cloned(),
            price_usd: price.map(|price| price.usd),
            price_source: price.map(|price| price.source.clone()),
            price_date: price.map(|price| price.date.clone()),
        },
    }
}

fn holds_name(holds: Holds) -> &'static str {
    match holds {
        Holds::Home => "home",
        Holds::Copy => "copy",
        Holds::Cache => "cache",
        Holds::Ranges => "ranges",
        Holds::Log => "log",
    }
}

fn energy(before: &DeviceStatistics, after: &DeviceStatistics) -> Option<f64> {
    Some(after.energy_joules? - before.energy_joules.unwrap_or(0.0))
}

fn busy(before: &DeviceStatistics, after: &DeviceStatistics, span: Nanoseconds) -> Option<f64> {
    share(after.busy.saturating_sub(before.busy).0, span.0)
}

/// Returns the size of the staging area of a shingled disk.
fn staging_area(profile: &Profile) -> Option<Bytes> {
    match &profile.body {
        Body::Hdd(disk) if disk.recording == Recording::Smr => Some(disk.staging_area.0),
        _ => None,
    }
}

fn hdd_figures(
    before: &DeviceStatistics,
    after: &DeviceStatistics,
    span: Nanoseconds,
    staging_area: Option<Bytes>,
) -> HddFigures {
    let hdd_before = before.hdd.unwrap_or_default();
    let bands_cleaned = after.hdd.map(|hdd| hdd.bands_cleaned - hdd_before.bands_cleaned);
    HddFigures {
        reads: Some(after.reads - before.reads),
        writes: Some(after.writes - before.writes),
        read_bytes: Some(after.read_bytes.0 - before.read_bytes.0),
        write_bytes: Some(after.write_bytes.0 - before.write_bytes.0),
        busy_fraction: busy(before, after, span),
        busy_fraction_pm: None,
        disk_head_time: None,
        energy_j: energy(before, after),
        seeks: after.hdd.map(|hdd| hdd.seeks - hdd_before.seeks),
        spin_downs: after.hdd.map(|hdd| hdd.spin_downs - hdd_before.spin_downs),
        staging_area_bytes: staging_area.map(|area| area.0),
        bands_cleaned: bands_cleaned.filter(|_| staging_area.is_some()),
    }
}

fn ssd_figures(
    before: &DeviceStatistics,
    after: &DeviceStatistics,
    flash: &FlashStatistics,
    span: Nanoseconds,
    end: Nanoseconds,
) -> SsdFigures {
    with_flash(before, after, span, flash_figures(before.flash.as_ref(), flash, span, end))
}

/// Returns the figures of a rented volume of SSDs, whose flash belongs to the provider.
fn rented_figures(before: &DeviceStatistics, after: &DeviceStatistics, span: Nanoseconds) -> SsdFigures {
    let flash = FlashFigures { lifetime_unknown: Some(Unknown::Rented), ..FlashFigures::default() };
    with_flash(before, after, span, flash)
}

fn with_flash(
    before: &DeviceStatistics,
    after: &DeviceStatistics,
    span: Nanoseconds,
    flash: FlashFigures,
) -> SsdFigures {
    SsdFigures {
        reads: Some(after.reads - before.reads),
        writes: Some(after.writes - before.writes),
        read_bytes: Some(after.read_bytes.0 - before.read_bytes.0),
        write_bytes: Some(after.write_bytes.0 - before.write_bytes.0),
        write_bytes_pm: None,
        busy_fraction: busy(before, after, span),
        energy_j: energy(before, after),
        flash,
    }
}

fn flash_figures(
    before: Option<&FlashStatistics>,
    after: &FlashStatistics,
    span: Nanoseconds,
    end: Nanoseconds,
) -> FlashFigures {
    let nothing = FlashStatistics::default();
    let before = before.unwrap_or(&nothing);
    let since = |now: &[(&'static str, u64)], then: &[(&'static str, u64)]| -> BTreeMap<String, u64> {
        let earlier = |cause: &str| then.iter().find(|(name, _)| *name == cause).map_or(0, |(_, count)| *count);
        now.iter().map(|&(cause, count)| (cause.to_owned(), count - earlier(cause))).collect()
    };
    let seconds = |now: &[(&'static str, Nanoseconds)], then: &[(&'static str, Nanoseconds)]| {
        amounts(now.iter().map(|(cause, time)| (*cause, time.as_seconds_f64())), |cause| {
            then.iter().find(|(name, _)| *name == cause).map_or(0.0, |(_, time)| time.as_seconds_f64())
        })
    };
    let joules = amounts(after.energy_by_operation.iter().copied(), |operation| {
        before.energy_by_operation.iter().find(|(name, _)| *name == operation).map_or(0.0, |(_, joules)| *joules)
    });
    // The distribution of erases over the blocks is unknown for a part of the run: counts by block
    // exist only for the whole run.
    let cold = before.erases == 0;
    let erases = after.erases - before.erases;
    let host = after.host_bytes_written.0 - before.host_bytes_written.0;
    let programmed = after.bytes_programmed.0 - before.bytes_programmed.0;
    let rate = share(erases, span.0).map(|per_nanosecond| per_nanosecond * 1e9);
    // The model computes the lifetime at the mean rate since time zero; after a warm-up the rate is
    // different.
    let cycles_used = after.cycles_used - before.cycles_used;
    let correction = (erases > 0 && end > Nanoseconds::ZERO)
        .then(|| after.cycles_used / cycles_used * (span.0 as f64 / end.0 as f64));
    let scale = |years: Option<f64>| years.zip(correction).map(|(years, correction)| years * correction);
    FlashFigures {
        pages_programmed_host: Some(after.pages_programmed_host - before.pages_programmed_host),
        pages_programmed_gc: Some(after.pages_programmed_gc - before.pages_programmed_gc),
        pages_programmed_by_cause: since(&after.pages_programmed_by_cause, &before.pages_programmed_by_cause),
        write_amplification: share(programmed, host),
        write_amplification_pm: None,
        erases: Some(erases),
        erases_by_cause: since(&after.erases_by_cause, &before.erases_by_cause),
        erase_rate_per_s: rate,
        erase_count: EraseCount {
            min: cold.then_some(after.erase_count.min),
            mean: Some(after.erase_count.mean - if cold { 0.0 } else { before.erase_count.mean }),
            max: cold.then_some(after.erase_count.max),
            stddev: cold.then_some(after.erase_count.stddev),
        },
        blocks_by_erases: cold.then(|| after.erases_of_blocks.clone()),
        die_busy_s_by_cause: seconds(&after.die_busy_by_cause, &before.die_busy_by_cause),
        wait_s_by_cause: seconds(&after.wait_by_cause, &before.wait_by_cause),
        energy_j_by_operation: joules,
        lifetime_years: scale(after.lifetime_years),
        lifetime_limited_by: None,
        lifetime_years_warranted: None,
        lifetime_years_cycles: None,
        lifetime_range_years: None,
        lifetime_shortest_limited_by: None,
        lifetime_unknown: None,
        dwpd: None,
        lifetime_worst_block_years: scale(after.lifetime_worst_block_years).filter(|_| cold),
        lifetime_unlimited: Some(erases == 0),
    }
}

/// Completes the lifetime under the rates of the run itself. Only requests that are issued at the
/// times of the trace have a rate that can be extrapolated.
fn note_life_of_run(figures: &mut SsdFigures, drive: &Drive, replay: Replay, span: Nanoseconds) {
    let flash = &mut figures.flash;
    let rate = figures.write_bytes.unwrap_or(0) as f64 / span.as_seconds_f64();
    if !matches!(replay, Replay::Timed { .. }) || !rate.is_finite() {
        (flash.lifetime_years, flash.lifetime_worst_block_years) = (None, None);
        flash.lifetime_unknown = Some(Unknown::NeedsTimes);
        return;
    }
    let size = drive.bought_size.sectors();
    let of_size = |size| Endurance::of(&drive.profile, size).unwrap_or_default();
    let (whole, part) = (of_size(size), of_size(drive.size.sectors()));
    let warranted = whole.lifetime(rate, 0.0).warranted_years;
    // All of the flash that is bought wears, and not only the part that was simulated.
    let times = whole.rated.zip(part.rated).map_or(1.0, |(whole, part)| whole / part);
    let cycles_years = flash.lifetime_years.map(|years| years * times);
    let lifetime = Lifetime { warranted_years: warranted, cycles_years };
    flash.note_lifetime(lifetime);
    flash.dwpd = Some(drive_writes_per_day(rate, size));
    let unknown = if rate > 0.0 { Unknown::NothingErased } else { Unknown::NothingWritten };
    flash.lifetime_unknown = lifetime.years().is_none().then_some(unknown);
}

/// Replaces the lifetimes in `run` by the lifetimes in steady state.
pub fn note_lives(run: &mut Run, lives: &[Life]) {
    for member in &mut run.members {
        if let MemberFigures::Ssd(figures) = &mut member.figures
            && let Some(life) = lives.iter().find(|life| life.member == member.id)
        {
            figures.flash.note_life(life);
        }
    }
    run.devices.ssd = ssd_total(&run.members);
}

impl FlashFigures {
    /// Returns the shortest and the longest life that the trace leaves possible, in years; `None`
    /// if the lifetime is not known.
    pub fn possible_years(&self) -> Option<(f64, f64)> {
        match (self.lifetime_years, self.lifetime_range_years) {
            (Some(years), Some((least, most))) => Some((least.min(years), most.max(years))),
            (Some(years), None) => Some((years, years)),
            (None, range) => range,
        }
    }

    /// Returns the limit that ends the shortest life that the trace leaves possible.
    pub fn shortest_limited_by(&self) -> Option<LimitedBy> {
        let years = self.lifetime_years.unwrap_or(f64::INFINITY);
        let is_of_range = self.possible_years().is_some_and(|(least, _)| least < years);
        if is_of_range { self.lifetime_shortest_limited_by } else { self.lifetime_limited_by }
    }

    /// Takes over the lifetime in steady state.
    pub fn note_life(&mut self, life: &Life) {
        let Life { warranted_years, cycles_years, range_years, unknown, dwpd, .. } = *life;
        self.note_lifetime(Lifetime { warranted_years, cycles_years });
        (self.lifetime_range_years, self.lifetime_unknown, self.dwpd) = (range_years, unknown, dwpd);
        self.lifetime_shortest_limited_by = life.shortest_limited_by.filter(|_| range_years.is_some());
        self.lifetime_unlimited = self.lifetime_unlimited.map(|unlimited| unlimited && range_years.is_none());
    }

    fn note_lifetime(&mut self, lifetime: Lifetime) {
        (self.lifetime_years, self.lifetime_limited_by) = (lifetime.years(), lifetime.limited_by());
        // Writes use up a warranty before the first block is erased.
        self.lifetime_unlimited = self.lifetime_unlimited.map(|unlimited| unlimited && lifetime.years().is_none());
        self.lifetime_years_warranted = lifetime.warranted_years;
        self.lifetime_years_cycles = lifetime.cycles_years;
    }
}

/// Returns named amounts minus the amounts in `before`.
fn amounts(
    now: impl Iterator<Item = (&'static str, f64)>,
    before: impl Fn(&'static str) -> f64,
) -> BTreeMap<String, f64> {
    now.map(|(name, amount)| (name.to_owned(), amount - before(name))).collect()
}

/// Adds two figures; a figure that does not apply counts as 0.
fn plus<T: std::ops::Add<Output = T>>(left: Option<T>, right: Option<T>) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (one, other) => one.or(other),
    }
}

/// Adds up amounts by name.
fn add<T: Copy + Default + std::ops::AddAssign>(
    one: &BTreeMap<String, T>,
    other: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let mut sum = one.clone();
    other.iter().for_each(|(name, amount)| *sum.entry(name.clone()).or_default() += *amount);
    sum
}

fn hdd_total(members: &[Member]) -> HddFigures {
    let hdds: Vec<&HddFigures> = members
        .iter()
        .filter_map(|member| match &member.figures {
            MemberFigures::Hdd(hdd) => Some(hdd),
            MemberFigures::Ssd(_) => None,
        })
        .collect();
    let mut total = hdds.iter().fold(HddFigures::default(), |total, hdd| HddFigures {
        reads: plus(total.reads, hdd.reads),
        writes: plus(total.writes, hdd.writes),
        read_bytes: plus(total.read_bytes, hdd.read_bytes),
        write_bytes: plus(total.write_bytes, hdd.write_bytes),
        busy_fraction: plus(total.busy_fraction, hdd.busy_fraction),
        busy_fraction_pm: None,
        disk_head_time: None,
        energy_j: plus(total.energy_j, hdd.energy_j),
        seeks: plus(total.seeks, hdd.seeks),
        spin_downs: plus(total.spin_downs, hdd.spin_downs),
        staging_area_bytes: plus(total.staging_area_bytes, hdd.staging_area_bytes),
        bands_cleaned: plus(total.bands_cleaned, hdd.bands_cleaned),
    });
    total.busy_fraction = total.busy_fraction.map(|busy| busy / hdds.len() as f64);
    total
}

/// Returns the figures of a single SSD unchanged. For several SSDs, counts are summed, and the
/// lifetime is the shortest lifetime.
fn ssd_total(members: &[Member]) -> SsdFigures {
    let ssds: Vec<&SsdFigures> = members
        .iter()
        .filter_map(|member| match &member.figures {
            MemberFigures::Ssd(ssd) => Some(ssd.as_ref()),
            MemberFigures::Hdd(_) => None,
        })
        .collect();
    let Some((&first, rest)) = ssds.split_first() else { return SsdFigures::default() };
    let mut total = rest.iter().fold(first.clone(), |total, ssd| SsdFigures {
        reads: plus(total.reads, ssd.reads),
        writes: plus(total.writes, ssd.writes),
        read_bytes: plus(total.read_bytes, ssd.read_bytes),
        write_bytes: plus(total.write_bytes, ssd.write_bytes),
        write_bytes_pm: None,
        busy_fraction: plus(total.busy_fraction, ssd.busy_fraction),
        energy_j: plus(total.energy_j, ssd.energy_j),
        flash: flash_total(total.flash, &ssd.flash),
    });
    total.busy_fraction = total.busy_fraction.map(|busy| busy / ssds.len() as f64);
    total
}

fn flash_total(left: FlashFigures, right: &FlashFigures) -> FlashFigures {
    let sooner = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    let life = |flash: &FlashFigures| flash.lifetime_years.unwrap_or(f64::INFINITY);
    let shorter = if life(right) < life(&left) { right } else { &left };
    // The drive that lasts longer by the trace may be the first to fail, if its range is wide.
    let has_range = left.lifetime_range_years.is_some() || right.lifetime_range_years.is_some();
    let possible = [left.possible_years(), right.possible_years()].into_iter().flatten().filter(|_| has_range);
    let possible = possible.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
    let least = |flash: &FlashFigures| flash.possible_years().map_or(f64::INFINITY, |(least, _)| least);
    let first_to_fail = if least(right) < least(&left) { right } else { &left };
    FlashFigures {
        lifetime_years: shorter.lifetime_years,
        lifetime_limited_by: shorter.lifetime_limited_by,
        lifetime_years_warranted: shorter.lifetime_years_warranted,
        lifetime_years_cycles: shorter.lifetime_years_cycles,
        lifetime_range_years: possible,
        lifetime_shortest_limited_by: possible.and_then(|_| first_to_fail.shortest_limited_by()),
        lifetime_unknown: if shorter.lifetime_years.is_some() { None } else { first_to_fail.lifetime_unknown },
        dwpd: [left.dwpd, right.dwpd].into_iter().flatten().reduce(f64::max),
        pages_programmed_host: plus(left.pages_programmed_host, right.pages_programmed_host),
        pages_programmed_gc: plus(left.pages_programmed_gc, right.pages_programmed_gc),
        pages_programmed_by_cause: add(&left.pages_programmed_by_cause, &right.pages_programmed_by_cause),
        // Drives with different pages have no common amplification and distribution.
        write_amplification: None,
        write_amplification_pm: None,
        erases: plus(left.erases, right.erases),
        erases_by_cause: add(&left.erases_by_cause, &right.erases_by_cause),
        erase_rate_per_s: plus(left.erase_rate_per_s, right.erase_rate_per_s),
        erase_count: EraseCount::default(),
        blocks_by_erases: None,
        die_busy_s_by_cause: add(&left.die_busy_s_by_cause, &right.die_busy_s_by_cause),
        wait_s_by_cause: add(&left.wait_s_by_cause, &right.wait_s_by_cause),
        energy_j_by_operation: add(&left.energy_j_by_operation, &right.energy_j_by_operation),
        lifetime_worst_block_years: sooner(left.lifetime_worst_block_years, right.lifetime_worst_block_years),
        lifetime_unlimited: left.lifetime_unlimited.zip(right.lifetime_unlimited).map(|(one, other)| one && other),
    }
}

/// Returns prices, and the cost of a megabyte a second (storage managers, equation 1).
fn cost(setup: &Setup, throughput: Throughput, replay: Replay) -> Cost {
    let sum = |ssd: bool| {
        let mut drives = setup.drives.iter().filter(|drive| is_flash(drive) == ssd).peekable();
        drives.peek()?;
        drives.map(|drive| drive.price.as_ref().map(|price| price.usd)).sum::<Option<f64>>()
    };
    let (ssd_usd, hdd_usd) = (sum(true), sum(false));
    let controller_usd = setup.controller_usd;
    let all_known = setup.drives.iter().all(|drive| drive.price.is_some());
    let total_usd = all_known.then(|| ssd_usd.unwrap_or(0.0) + hdd_usd.unwrap_or(0.0) + controller_usd);
    let exported_gb = setup.tree.units().map(|unit| unit.bytes().0).sum::<u64>() as f64 / 1e9;
    let score = throughput.mb_per_s.filter(|_| matches!(replay, Replay::Closed { .. }));
    let per = |usd: Option<f64>| score.zip(usd).filter(|(_, usd)| *usd > 0.0).map(|(score, usd)| score / usd);
    Cost {
        ssd_usd,
        hdd_usd,
        controller_usd: Some(controller_usd),
        total_usd,
        usd_per_gb: total_usd.map(|usd| usd / exported_gb),
        score,
        score_per_usd: per(total_usd),
        score_per_manager_usd: per(Some(controller_usd)),
        budget: per(ssd_usd.map(|usd| usd + controller_usd)),
        usd_per_year: None,
        usd_per_year_most: None,
        loss_probability_per_year: None,
        embodied_carbon_kg: None,
    }
}

fn series(setup: &Setup, measured: &Measured) -> Series {
    let has_ssd = setup.drives.iter().any(is_flash);
    Series {
        response_time_cdf: measured.response.cdf(),
        latency: measured.latency.series(),
        ssd_written: has_ssd.then(|| measured.ssd_written.series()),
        dirty: has_slots(setup).then(|| measured.dirty.series()),
        queue_depth: Some(measured.queue_depth.series()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: with an SSD as Griffin's log, 99.99 % of the writes were in sequence, though the
    /// SSD that is home had no write at all.
    #[test]
    fn log_beside_other_flash_has_no_sequentiality() {
        let griffin = [Holds::Home, Holds::Log];
        assert!(has_sequentiality(Holds::Home, &griffin) && !has_sequentiality(Holds::Log, &griffin));
        assert!(has_sequentiality(Holds::Log, &[Holds::Log]), "the one SSD of writeboost is its log");
    }
    /// Regression: a drive of 0.5 to 30 years beside one of 4 to 6 years gave "at least 4 years".
    #[test]
    fn shortest_life_of_several_drives_is_that_of_any_drive() {
        let flash = |years: f64, range: Option<(f64, f64)>| FlashFigures {
            lifetime_years: Some(years),
            lifetime_range_years: range,
            ..FlashFigures::default()
        };
        let total = flash_total(flash(5.0, Some((4.0, 6.0))), &flash(6.0, Some((0.5, 30.0))));
        assert_eq!((total.lifetime_years, total.possible_years()), (Some(5.0), Some((0.5, 6.0))));
        let total = flash_total(flash(5.0, None), &flash(3.0, None));
        assert_eq!((total.lifetime_years, total.lifetime_range_years), (Some(3.0), None));
    }
}
