//! A random case: drives, settings, faults and a workload, all from one seed.
//!
//! Caches and logs are tiny, so that eviction, migration, checkpoints and wraps happen often.
//! Settings are drawn by kind from the scheme's declared parameters. So a new scheme or parameter
//! is covered without a change of this file.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::{LayoutError, LayoutRequest, MemberId, MemberInfo, SlotKind};
use bimetal_core::operation::OpKind;
use bimetal_core::policies::replacement::OFFLINE_NAME;
use bimetal_core::scheme::PROFILED;
use bimetal_core::scheme::{Holds, SchemeError, SchemeInfo};
use bimetal_core::settings::{Kind, RATE_MIN, Settings};
use bimetal_core::units::{Bytes, Nanoseconds, SectorRange, Sectors};
use bimetal_core::volume::{Volume, VolumeConfig, VolumeError};

use crate::drive::Plan;
use crate::payload::Tags;
use crate::random::Random;
use crate::tester::Options;

/// Number of times that settings are drawn anew before the defaults are taken.
const DRAWS_MAX: u32 = 20;
/// Smallest number of records after which a log commits by itself.
const RECORDS_MIN: usize = 8;

/// Faults of a case, apart from the faults in the plans of the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Mean number of events until a sector rots or becomes unreadable at rest; 0: never.
    pub decay: u64,
    /// Member that vanishes, and the time at which it vanishes.
    pub vanishes: Option<(u16, Nanoseconds)>,
}

/// Size of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Volumes of up to 16 MiB.
    Large,
    /// Volumes of at most 4 MiB and 500 requests, with frequent flushes. Cases of this size run
    /// again after each of several power cuts.
    Small,
}

/// Ingredients of a volume, so that it can be made again after a crash.
pub struct Setup {
    /// Scheme of the volume.
    pub scheme: &'static SchemeInfo,
    /// Parameters of the scheme.
    pub settings: Settings,
    /// Block size.
    pub block: BlockSize,
    /// Drives of the volume.
    pub members: Vec<MemberInfo>,
    /// Requested sizes of units.
    pub units: Vec<Sectors>,
    /// Number of records after which a log commits by itself; `None` for the engine's own number,
    /// which is too large for the small drives of a case.
    pub records_until_commit: Option<usize>,
}

impl Setup {
    /// Returns the configuration for the engine.
    pub fn config(&self) -> VolumeConfig<'_> {
        let layout = LayoutRequest { block: self.block, members: &self.members, units: &self.units };
        VolumeConfig { scheme: self.scheme, settings: &self.settings, layout, identity: 7, drives: &[] }
    }

    /// Sets the number of records after which the log of `volume` commits by itself.
    pub fn commit_early(&self, volume: &mut Volume<Tags>) {
        if let Some(records) = self.records_until_commit {
            volume.commit_log_after(records);
        }
    }
}

/// A case before its run.
pub struct Case {
    /// Ingredients of the case as text, for the report of a failure.
    pub description: String,
    /// Ingredients of the volume.
    pub setup: Setup,
    /// The volume.
    pub volume: Volume<Tags>,
    /// Size of each drive, in sectors.
    pub capacities: Vec<u64>,
    /// Faults of each drive.
    pub plans: Vec<Plan>,
    /// Approximate latency of each drive's operations.
    pub latencies: Vec<Nanoseconds>,
    /// Faults apart from the faults in the plans of the drives.
    pub faults: Faults,
    /// The requests.
    pub workload: Workload,
    /// Set if a member refuses writes from some operation on. `refuses_alone` names the member if
    /// nothing else fails.
    pub refuses: bool,
    /// See [`refuses`](Self::refuses).
    pub refuses_alone: Option<MemberId>,
}

impl Case {
    /// Makes a member refuse writes from some operation on: the member with the slots, or a home.
    /// In half of the cases with such a member nothing else fails.
    pub fn refuse(&mut self, random: &mut Random) {
        let members = self.plans.len() as u64;
        let slots = self.volume.view().layout.slots.filter(|_| !random.one_in(4));
        let member = slots.map_or_else(|| MemberId(random.below(members) as u16), |slots| slots.member);
        let alone = random.one_in(2);
        self.refuses = true;
        if alone {
            self.spare_drives();
            self.refuses_alone = Some(member);
        }
        let bits = random.between(3, 11);
        let plan = &mut self.plans[usize::from(member.0)];
        plan.refuses_from = Some(random.below(1 << bits));
        plan.refuses_flushes = random.one_in(2);
        let else_fails = if alone { "nothing else fails" } else { "all else as above" };
        self.description = format!("{}\n{member:?} refuses: {plan:?}, {else_fails}", self.description);
    }

    /// Lets no drive fail an operation.
    pub fn spare_drives(&mut self) {
        self.faults = Faults { decay: 0, vanishes: None };
        let sound = |plan: &Plan| Plan { stuck: plan.stuck, no_discard: plan.no_discard, ..Plan::default() };
        self.plans.iter_mut().for_each(|plan| *plan = sound(plan));
    }

    /// Draws a case for `scheme`.
    ///
    /// # Panics
    ///
    /// Panics if the scheme cannot be made with its defaults on drives that are large enough.
    pub fn draw(scheme: &'static SchemeInfo, scale: Scale, random: &mut Random, options: &Options) -> Self {
        let block_kib = [4, 8, 64][random.weighted(&[6, 2, 2])];
        let block = BlockSize::new(Bytes::from_kib(block_kib)).expect("4, 8 and 64 KiB are block sizes");
        let (mut setup, mut volume) = (0..=DRAWS_MAX)
            .find_map(|draw| {
                let settings = draw_settings(scheme, random, options.drawn, draw == DRAWS_MAX);
                let members = draw_members(scheme, scale, block, random);
                let units = draw_units(scale, random, block.sectors());
                make_volume(Setup { scheme, settings, block, members, units, records_until_commit: None }, random)
            })
            .expect("a scheme can be made with its defaults on drives that are large enough");
        if options.drawn.is_none() {
            setup.records_until_commit = draw_records_until_commit(&volume, random.fork());
            setup.commit_early(&mut volume);
        }
        let members = &setup.members;
        let capacities: Vec<u64> = members.iter().map(|member| member.capacity.0).collect();
        let workload = Workload::draw(&volume, scale, random);
        let with_faults = options.faults && !random.one_in(3);
        let plans: Vec<Plan> = members.iter().map(|_| draw_plan(random, with_faults)).collect();
        let latencies = members.iter().map(|_| Nanoseconds(random.pick(&[10_000, 100_000, 1_000_000, 10_000_000])));
        let latencies = latencies.collect();
        let vanishes = (with_faults && random.one_in(4)).then(|| {
            let bits = random.between(20, 38);
            let when = Nanoseconds(random.below(1 << bits));
            (random.below(members.len() as u64) as u16, when)
        });
        let decay = if with_faults && random.one_in(2) { random.pick(&[50, 300, 2000]) } else { 0 };
        let faults = Faults { decay, vanishes };
        let listed: Vec<String> = setup.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let description = format!(
            "{} with {block_kib} KiB blocks, drives of {capacities:?} sectors, {}{}\n{plans:?} {faults:?}",
            scheme.name,
            listed.join(" "),
            setup
                .records_until_commit
                .map_or_else(String::new, |records| format!(", a commit after {records} records"))
        );
        Self {
            description,
            setup,
            volume,
            capacities,
            plans,
            latencies,
            faults,
            workload,
            refuses: false,
            refuses_alone: None,
        }
    }
}

pub(crate) fn draw_plan(random: &mut Random, with_faults: bool) -> Plan {
    let stuck = if random.one_in(4) { random.pick(&[30, 300]) } else { 0 };
    let no_discard = random.one_in(4);
    let mut rate = |rates: &[u64]| if with_faults && random.one_in(3) { random.pick(rates) } else { 0 };
    // The engine retries a failed read a few times before the data count as lost. At higher rates,
    // chance alone would lose data.
    let (reads, others) = ([24, 100, 1000], [8, 40, 300]);
    let (read_error, short) = (rate(&reads), rate(&reads));
    let (write_error, flush_error) = (rate(&others), rate(&others));
    Plan { read_error, write_error, short, flush_error, forgets: true, stuck, no_discard, ..Plan::default() }
}

pub(crate) fn draw_settings(
    scheme: &'static SchemeInfo,
    random: &mut Random,
    drawn: Option<&[(&str, bool)]>,
    defaults: bool,
) -> Settings {
    let mut given = Vec::new();
    for parameter in scheme.parameters {
        let taken = match drawn {
            None => true,
            Some(drawn) => match drawn.iter().find(|(name, _)| *name == parameter.name) {
                Some(&(_, taken)) => taken,
                None => continue,
            },
        };
        if !defaults && random.one_in(2) {
            let value = draw_value(parameter.kind, random);
            given.extend(taken.then_some((parameter.name, value)));
        }
    }
    let given = given.iter().map(|(key, value)| (*key, value.as_str()));
    Settings::new(scheme.name, scheme.parameters, given).expect("values drawn by kind are of that kind")
}

fn draw_value(kind: Kind, random: &mut Random) -> String {
    let off = random.one_in(4);
    match kind {
        Kind::DurationOrOff | Kind::SizeOrOff | Kind::RateOrOff | Kind::FractionOrOff | Kind::NumbersOrOff(_)
            if off =>
        {
            "off".into()
        }
        Kind::Duration | Kind::DurationOrOff => {
            let bits = random.between(0, 38);
            Nanoseconds(random.below(1 << bits)).to_string()
        }
        Kind::Size | Kind::SizeOrOff => {
            let bits = random.between(0, 21);
            Bytes(random.below(1 << bits)).to_string()
        }
        Kind::RateOrOff => {
            let bits = random.between(0, 21);
            Bytes(RATE_MIN.0.max(random.below(1 << bits))).to_string()
        }
        Kind::Fraction | Kind::FractionOrOff => format!("0.{:02}", random.below(100)),
        Kind::Count => random.below(200).to_string(),
        Kind::Admission => {
            let bits = random.between(10, 34);
            let size = Bytes(random.below(1 << bits));
            match random.below(5) {
                0 => "all".into(),
                1 => format!("write-size:{size}"),
                2 => format!("n-hit:{}", random.between(1, 4)),
                3 => format!("sequential:{size}"),
                _ => format!("wear-budget:{size}/d"),
            }
        }
        Kind::RangesOrOff if off => "off".into(),
        Kind::RangesOrOff => {
            let from = random.below(1 << 20);
            let bits = random.between(10, 20);
            format!("{}-{}", Bytes(from), Bytes(from + 1 + random.below(1 << bits)))
        }
        Kind::NumbersOrOff(count) => {
            let numbers = (0..count).map(|_| format!("{}.{}", random.below(5), random.below(100)));
            numbers.collect::<Vec<_>>().join(":")
        }
        Kind::Choice(words) => {
            // A volume with data cannot know the future.
            let known = |word: &&str| ![OFFLINE_NAME, PROFILED].contains(word);
            let words: Vec<&str> = words.iter().copied().filter(known).collect();
            random.pick(&words).to_owned()
        }
    }
}

/// Draws the number of records after which a log commits by itself, from [`RECORDS_MIN`] on; `None`
/// in a quarter of the cases, and without a log.
pub(crate) fn draw_records_until_commit(volume: &Volume<Tags>, mut random: Random) -> Option<usize> {
    let slots = volume.view().layout.slots?;
    if !matches!(slots.kind, SlotKind::Log { .. }) || random.one_in(4) {
        return None;
    }
    let bits = random.between(0, 8);
    Some(RECORDS_MIN + random.below(1 << bits) as usize)
}

/// Draws small drives for each role.
fn draw_members(scheme: &'static SchemeInfo, scale: Scale, block: BlockSize, random: &mut Random) -> Vec<MemberInfo> {
    let sectors = block.sectors();
    let homes = match scale {
        Scale::Large => [4000, 2000, 300],
        Scale::Small => [900, 450, 56],
    };
    let ranges = scheme.members.iter().filter(|(_, holds)| *holds == Holds::Ranges).count().max(1) as u64;
    let home_max = homes[(sectors.ilog2() as usize - 3).min(2)] / if scale == Scale::Small { ranges } else { 1 };
    let member = |&(role, holds)| {
        let blocks = match (holds, scale) {
            (Holds::Home | Holds::Copy | Holds::Ranges, Scale::Large) => random.between(40, home_max),
            (Holds::Home | Holds::Copy | Holds::Ranges, Scale::Small) => {
                let most = random.pick(&[home_max / 8, home_max / 2, home_max]);
                random.between(4, most)
            }
            (Holds::Cache | Holds::Log, _) => {
                let most = random.pick(match scale {
                    Scale::Large => &[40, 150, 600],
                    Scale::Small => &[20, 40, 150],
                });
                random.between(16, most)
            }
        };
        MemberInfo { role, capacity: Sectors(blocks * sectors + random.below(200)) }
    };
    scheme.members.iter().map(member).collect()
}

/// Makes a volume on the drives of the case, enlarged until the scheme accepts the drives. Returns
/// `None` if the scheme refuses the settings.
fn make_volume(mut setup: Setup, random: &mut Random) -> Option<(Setup, Volume<Tags>)> {
    loop {
        let short = match Volume::new(&setup.config()) {
            Ok(volume) => return Some((setup, volume)),
            Err(VolumeError::Scheme(SchemeError::Layout(LayoutError::TooSmall {
                role, needed, available, ..
            }))) => {
                assert!(needed > available, "{needed} is no more than the {available} that is too small");
                (role, needed)
            }
            Err(_) => return None,
        };
        let (role, needed) = short;
        let is_short = |member: &&mut MemberInfo| member.role == role && member.capacity < Sectors::covering(needed);
        let short = setup.members.iter_mut().find(is_short);
        let short = short.expect("the drive that is too small is one of those given");
        short.capacity = Sectors::covering(needed) + Sectors(random.below(100));
    }
}

/// Draws the sizes of a few units, or no size: then there is one unit, as large as the drives
/// allow.
fn draw_units(scale: Scale, random: &mut Random, block_sectors: u64) -> Vec<Sectors> {
    if random.one_in(2) {
        return Vec::new();
    }
    let most = if scale == Scale::Small { 1500 } else { 100 * block_sectors };
    (0..random.between(1, 4)).map(|_| Sectors(random.between(1, most))).collect()
}

/// Workload of a case: requests to a few zones, repeated, in bursts.
pub struct Workload {
    /// Number of requests still to come.
    pub left: u64,
    units: Vec<(u64, u64)>,
    zones: Vec<(usize, u64, u64)>,
    weights: [u64; 5],
    sizes: [u64; 4],
    fua: u64,
    burst_left: u64,
    burst_max: u64,
    gap: Nanoseconds,
    next_sequential: Option<(usize, u64)>,
    block_sectors: u64,
    at: Nanoseconds,
}

/// A request that the workload issues.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Unit of the request. The unit may not exist.
    pub unit: u16,
    /// Kind of the request.
    pub kind: OpKind,
    /// Range within the unit.
    pub range: SectorRange,
    /// Set if the request must be stable when it is done.
    pub fua: bool,
    /// Range in the flat address space; `None` if the request lies outside its unit.
    pub flat: Option<SectorRange>,
}

const KINDS: [OpKind; 5] = [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard, OpKind::WriteZeroes];

impl Workload {
    pub(crate) fn draw(volume: &Volume<Tags>, scale: Scale, random: &mut Random) -> Self {
        let block_sectors = volume.view().block().sectors();
        let mut first = 0;
        let units: Vec<(u64, u64)> = volume
            .units()
            .map(|len| {
                let unit = (first, len.0);
                first += len.0;
                unit
            })
            .collect();
        let zones = (0..random.between(1, 4)).map(|_| {
            let unit = random.below(units.len() as u64) as usize;
            let most = random.pick(&[4, 40, 400]);
            let len = random.between(1, most * block_sectors).min(units[unit].1);
            (unit, random.below(units[unit].1 - len + 1), len)
        });
        let zones = zones.collect();
        let mut weight = |most: u64| random.below(most + 1);
        let mut weights = [weight(10) + 1, weight(10) + 3, weight(2), weight(1), weight(1)];
        let sizes = [weight(10) + 1, weight(10), weight(3), weight(1)];
        if scale == Scale::Small {
            weights[2] += weight(3);
        }
        let fua = random.pick(&[0, 3, 20]);
        let burst_max = random.pick(&[1, 10, 60, 400]);
        let most = random.pick(match scale {
            Scale::Large => &[60, 200, 400],
            Scale::Small => &[40, 120, 500],
        });
        Self {
            left: random.between(20, most),
            units,
            zones,
            weights,
            sizes,
            fua,
            burst_left: 0,
            burst_max,
            gap: Nanoseconds(random.pick(&[0, 1000, 100_000])),
            next_sequential: None,
            block_sectors,
            at: Nanoseconds::ZERO,
        }
    }

    /// Lets all requests be for a few blocks, so that they meet each other.
    pub(crate) fn narrow(&mut self, random: &mut Random) {
        let most = random.between(1, 6) * self.block_sectors;
        self.zones.truncate(2);
        self.zones.iter_mut().for_each(|(_, _, len)| *len = most.min(*len));
        self.sizes = [10, 4, 1, 0];
    }

    /// Returns the time of the next request; `None` after the last.
    pub fn next_at(&self) -> Option<Nanoseconds> {
        (self.left > 0).then_some(self.at)
    }

    /// Delays requests until `now`, because the power was off until then.
    pub fn wait_until(&mut self, now: Nanoseconds) {
        self.at = self.at.max(now);
    }

    /// Returns the next request.
    pub fn next(&mut self, random: &mut Random) -> Arrival {
        self.left -= 1;
        if self.burst_left == 0 {
            self.burst_left = random.between(1, self.burst_max);
            let idle = random.pick(&[100_000, 3_000_000, 20_000_000, 300_000_000, 10_000_000_000, 1_000_000_000_000]);
            self.at += random.around(Nanoseconds(idle));
        } else {
            self.burst_left -= 1;
            self.at += random.around(self.gap);
        }
        let kind = KINDS[random.weighted(&self.weights)];
        let fua = random.one_in(self.fua) && kind.changes_content() && kind != OpKind::Discard;
        let (unit, range) = self.place(kind, random);
        let flat = self.units.get(unit).filter(|(_, len)| range.end().0 <= *len);
        let flat = flat.map(|(first, _)| SectorRange { start: Sectors(range.start.0 + first), ..range });
        Arrival { unit: unit as u16, kind, range, fua, flat }
    }

    /// Returns a request for a range of the flat address space, clipped at the end of its unit. A
    /// range outside every unit gives a request that must fail.
    pub fn request(&self, kind: OpKind, flat: SectorRange, fua: bool) -> Arrival {
        let is_in = |(first, len): &(u64, u64)| (*first..first + len).contains(&flat.start.0);
        if kind == OpKind::Flush {
            let none = SectorRange::default();
            return Arrival { unit: 0, kind, range: none, fua: false, flat: Some(none) };
        }
        let Some(unit) = self.units.iter().position(is_in) else {
            return Arrival { unit: self.units.len() as u16, kind, range: flat, fua, flat: None };
        };
        let (first, len) = self.units[unit];
        let (start, len) = (flat.start.0 - first, flat.len.0.min(first + len - flat.start.0));
        let range = SectorRange::new(start, len);
        Arrival { unit: unit as u16, kind, range, fua, flat: Some(SectorRange::new(flat.start.0, len)) }
    }

    fn place(&mut self, kind: OpKind, random: &mut Random) -> (usize, SectorRange) {
        if kind == OpKind::Flush {
            return (0, SectorRange::default());
        }
        if random.one_in(60) {
            // A request outside every unit, or of no sectors.
            let unit = random.below(self.units.len() as u64 + 1) as usize;
            let len = random.pick(&[0, 1, 100]);
            return (unit, SectorRange::new(random.below(20_000), len));
        }
        let (unit, start, end) = match self.next_sequential {
            Some((unit, start)) if start < self.units[unit].1 && random.one_in(3) => (unit, start, self.units[unit].1),
            _ => {
                let zone = random.below(self.zones.len() as u64) as usize;
                let (unit, first, len) = self.zones[zone];
                let mut start = first + random.below(len);
                if random.one_in(2) {
                    start -= (start % self.block_sectors).min(start - first);
                }
                (unit, start, self.units[unit].1)
            }
        };
        let most = match random.weighted(&self.sizes) {
            0 => 64,
            1 => 4 * self.block_sectors,
            2 => 64 * self.block_sectors,
            _ => 6000,
        };
        let mut len = random.between(1, most).min(end - start);
        if random.one_in(2) && start.is_multiple_of(self.block_sectors) {
            len = len.next_multiple_of(self.block_sectors).min(end - start);
        }
        self.next_sequential = Some((unit, start + len));
        (unit, SectorRange::new(start, len))
    }
}

#[cfg(test)]
mod tests {
    use bimetal_core::schemes;

    use super::*;

    #[test]
    fn request_lies_in_the_unit_of_its_first_sector() {
        let mut random = Random::new(1);
        let case = Case::draw(
            schemes::find("hdd-only").unwrap(),
            Scale::Small,
            &mut random,
            &Options { faults: false, ..Options::default() },
        );
        let mut workload = case.workload;
        workload.units = vec![(0, 100), (100, 50)];
        let request = |start, len| workload.request(OpKind::Write, SectorRange::new(start, len), true);
        let arrival = request(110, 8);
        assert_eq!((arrival.unit, arrival.range, arrival.fua), (1, SectorRange::new(10, 8), true));
        assert_eq!(arrival.flat, Some(SectorRange::new(110, 8)));
        let clipped = request(96, 8);
        assert_eq!(
            (clipped.unit, clipped.range, clipped.flat),
            (0, SectorRange::new(96, 4), Some(SectorRange::new(96, 4)))
        );
        let outside = request(150, 8);
        assert_eq!((outside.unit, outside.flat), (2, None));
        let flush = workload.request(OpKind::Flush, SectorRange::new(110, 8), true);
        assert_eq!((flush.range, flush.fua, flush.flat), (SectorRange::default(), false, Some(SectorRange::default())));
    }
}
