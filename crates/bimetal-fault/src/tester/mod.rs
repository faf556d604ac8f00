//! The run of one case: requests go in, operations come out, drives answer, and everything is
//! checked after each step.
//!
//! The checks see the engine from outside. The checks of the tester are these rules:
//! - Every request finishes once, in bounded time, and without an error that no fault explains.
//! - Every read returns a value that the shadow allows.
//! - Every operation lies in one region of its member, has a payload that belongs in this region,
//!   and overlaps no conflicting operation.
//! - Data that a flush or a forced write acknowledged are stable in the place that the block map
//!   names.
//! - The engine asks to be called only when it has something to do.
//!
//! At the end every touched sector is read back.

mod checks;
mod clock;
mod crash;
mod damaged;
mod flushes;
mod holds;
mod plain;
mod report;
mod returns;
mod scrubs;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bimetal_core::block::Block;
use bimetal_core::block_map::{Entry, Slot};
use bimetal_core::layout::{MemberId, SlotKind};
use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::units::{Nanoseconds, SectorRange};
use bimetal_core::volume::Volume;

use crate::atlas::Atlas;
use crate::case::{Arrival, Case, Faults, Scale, Setup, Workload};
use crate::drive::{Drive, Ended};
use crate::payload::Tags;
use crate::random::Random;
use crate::regions::{Region, region_of};
use crate::sabotage::{self, Saboteur};
use crate::shadow::Shadow;
use crash::Power;
use damaged::Damaged;
use holds::Holds;
pub use report::{CaseKind, DamageReport, Failure, Options, Report};
use returns::Returns;
use scrubs::Scrubs;

/// Sectors per read when the whole volume is read back.
const READ_BACK_SECTORS: u64 = 96;
/// Number of failed reads of a slot, one after the other, after which a volume may report the
/// slot's block as lost. A move reads a slot five times.
const READS_OF_A_SLOT_MIN: u32 = 4;

/// Runs the case `seed` of `scheme`, without power cuts.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed);
        let case = Case::draw(scheme, Scale::Large, &mut random, &options);
        description.clone_from(&case.description);
        Tester::new(case, random, options).run()
    })
}

/// Runs the crash case `seed` of `scheme`: the power is cut, also while the volume recovers.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_crash_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(!seed);
        let case = Case::draw(scheme, Scale::Small, &mut random, &options);
        *description = format!("with power cuts, {}", case.description);
        Tester::new(case, random, options).run_crashes()
    })
}

/// Runs the case `seed` of `scheme` in which a member refuses writes from some operation on and
/// still reads, with power cuts.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_refusal_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed.wrapping_mul(5) ^ 0x7265_6675_7365);
        let mut case = Case::draw(scheme, Scale::Small, &mut random, &options);
        case.refuse(&mut random);
        *description = format!("with a member that refuses writes, {}", case.description);
        Tester::new(case, random, options).run_crashes()
    })
}

/// Runs the damage case `seed` of `scheme`: data on sound drives are damaged while the power is
/// off.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_damage_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed.wrapping_mul(7) ^ 0x6461_6d61_6765);
        let case = Case::draw(scheme, Scale::Small, &mut random, &Options { faults: false, ..options });
        *description = format!("with damage, {}", case.description);
        Tester::new(case, random, options).run_damaged(description)
    })
}

/// Runs the case `seed` of `scheme` in which scrubs begin again and again. Half of the cases have
/// power cuts.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_scrub_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed.wrapping_mul(9) ^ 0x7363_7275_6273);
        let mut case = Case::draw(scheme, Scale::Small, &mut random, &options);
        if random.one_in(4) {
            case.refuse(&mut random);
        }
        if case.faults.decay > 0 {
            // The case is about scrubs, which find decay, so decay is frequent.
            case.faults.decay = case.faults.decay.min(30);
        }
        let cuts = random.one_in(2);
        *description = format!("with scrubs, {}{}", if cuts { "with power cuts, " } else { "" }, case.description);
        let rots = case.faults.decay > 0;
        let mut tester = Tester::new(case, random, options);
        tester.scrubs = Some(Scrubs::new(seed, rots));
        if cuts { tester.run_crashes() } else { tester.run() }
    })
}

/// Runs the case `seed` of `scheme` in which drives hold operations back, and requests arrive for
/// the blocks of these operations. Half of the cases have power cuts, and half have scrubs.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_hold_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed.wrapping_mul(11) ^ 0x686f_6c64);
        let mut case = Case::draw(scheme, Scale::Small, &mut random, &options);
        if options.faults && random.one_in(2) {
            case.faults.decay = 100;
        }
        if random.one_in(6) {
            case.refuse(&mut random);
        }
        case.workload.narrow(&mut random);
        let (cuts, scrubs) = (random.one_in(2), random.one_in(2));
        *description = format!("with held operations, power cuts {cuts}, scrubs {scrubs}, {}", case.description);
        let rots = case.faults.decay > 0;
        let holds = Holds::new(&mut random);
        let mut tester = Tester::new(case, random, options);
        tester.scrubs = scrubs.then(|| Scrubs::new(seed, rots));
        tester.holds = Some(holds);
        if cuts { tester.run_crashes() } else { tester.run() }
    })
}

/// Runs the case `seed` of `scheme` in which members vanish and come back, in several lives of the
/// volume.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_return_case(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, options, |description| {
        let mut random = Random::new(seed.wrapping_mul(13) ^ 0x7265_7475_726e);
        let mut case = Case::draw(scheme, Scale::Small, &mut random, &options);
        if random.one_in(2) {
            case.spare_drives();
        }
        case.faults.vanishes = None;
        case.workload.narrow(&mut random);
        let holds = random.one_in(2).then(|| Holds::new(&mut random));
        *description = format!("with members that come back, held {}, {}", holds.is_some(), case.description);
        let mut tester = Tester::new(case, random, options);
        tester.holds = holds;
        tester.returns = Some(Returns::default());
        tester.run_returns()
    })
}

/// Runs the cases that the replay line of a failure names. The cases are the fault, crash, refusal,
/// damage, scrub, hold and return cases `seed` of `scheme`, or only the cases of the kind in
/// `options`.
///
/// # Errors
/// Returns the first violation.
pub fn run_seed(scheme: &'static SchemeInfo, seed: u64, options: Options) -> Result<Report, Box<Failure>> {
    let mut report = Report::default();
    for kind in CaseKind::ALL.into_iter().filter(|kind| options.only.is_none_or(|only| only == *kind)) {
        let run = match kind {
            CaseKind::Faults => run_case,
            CaseKind::Cuts => run_crash_case,
            CaseKind::Refusals => run_refusal_case,
            CaseKind::Damage => run_damage_case,
            CaseKind::Scrubs => run_scrub_case,
            CaseKind::Holds => run_hold_case,
            CaseKind::Returns => run_return_case,
        };
        report.add(&run(scheme, seed, options)?);
    }
    Ok(report)
}

/// Turns an error or panic of `run` into a failure. `run` writes the description of the case into
/// its argument.
pub(crate) fn guarded(
    scheme: &'static SchemeInfo,
    seed: u64,
    options: Options,
    run: impl FnOnce(&mut String) -> Result<Report, String>,
) -> Result<Report, Box<Failure>> {
    let mut case = String::new();
    let scope = sabotage::Scope::enter(options.sabotage);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut case)));
    drop(scope);
    let message = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(message)) => message,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panic: {}", text.unwrap_or_default())
        }
    };
    Err(Box::new(Failure { scheme: scheme.name, seed, case, message }))
}

struct Tester {
    volume: Volume<Tags>,
    drives: Vec<Drive>,
    random: Random,
    shadow: Shadow,
    atlas: Atlas,
    faults: Faults,
    workload: Workload,
    now: Nanoseconds,
    /// Open requests by token, with their number in the shadow; `None` for a request outside its
    /// unit.
    open: BTreeMap<u64, Option<u32>>,
    tokens: u64,
    /// Recent changes that succeeded.
    recent: VecDeque<u32>,
    operations_since_end: u64,
    /// Delay of the volume's calls at its timers.
    patience: Nanoseconds,
    any_no_discard: bool,
    /// Set if a member refuses writes. The power is cut soon after the engine finds the refusal.
    refuses: bool,
    saboteur: Saboteur,
    scrubs: Option<Scrubs>,
    holds: Option<Holds>,
    returns: Option<Returns>,
    setup: Setup,
    /// State of the power; `None` in a case without cuts.
    power: Option<Power>,
    /// Promised changes by sector. See [`was_promised_in_slot`](Self::was_promised_in_slot).
    promised_in_slots: BTreeMap<u64, u32>,
    /// For each slot, the number of reads of this slot alone that failed one after the other.
    failed_reads: BTreeMap<u32, u32>,
    /// Damage and its possible cost, in a damage case.
    damaged: Option<Damaged>,
    /// Time at which a request last arrived or ended, or a flush of a drive ended; `None` if the
    /// volume was closed since.
    last_request: Option<Nanoseconds>,
    trace: bool,
    report: Report,
}

impl Tester {
    fn new(case: Case, random: Random, options: Options) -> Self {
        let sectors = case.volume.view().layout.total_blocks() * case.volume.view().block().sectors();
        let drives = case.plans.iter().zip(&case.capacities).zip(&case.latencies);
        let drives = drives.map(|((&plan, &capacity), &latency)| {
            Drive::new(capacity, latency, crate::drive::Plan { lie: options.lie, ..plan })
        });
        Self {
            drives: drives.collect(),
            random,
            shadow: Shadow::new(sectors),
            atlas: Atlas::new(case.plans.len(), case.refuses_alone),
            faults: case.faults,
            workload: case.workload,
            now: Nanoseconds::ZERO,
            open: BTreeMap::new(),
            tokens: 0,
            recent: VecDeque::new(),
            operations_since_end: 0,
            patience: Nanoseconds::ZERO,
            any_no_discard: case.plans.iter().any(|plan| plan.no_discard),
            refuses: case.refuses,
            saboteur: Saboteur::new(options.sabotage),
            scrubs: None,
            holds: None,
            returns: None,
            setup: case.setup,
            power: None,
            promised_in_slots: BTreeMap::new(),
            failed_reads: BTreeMap::new(),
            damaged: None,
            last_request: None,
            trace: options.trace,
            report: Report::default(),
            volume: case.volume,
        }
    }

    fn run(mut self) -> Result<Report, String> {
        while self.step()? {}
        self.settle()?;
        self.read_back()?;
        self.count_statistics();
        Ok(self.report)
    }

    /// Adds the volume's statistics to the report.
    fn count_statistics(&mut self) {
        let statistics = self.volume.statistics();
        self.report.migrations += statistics.migrations.count;
        self.report.checkpoints += statistics.checkpoints;
        self.report.unasked_commits += statistics.unasked_commits;
        self.report.evictions += statistics.evicted_blocks;
        self.report.faults = self.atlas.faults();
        self.report.read_only = self.atlas.read_only();
    }

    /// Handles the next event. Returns false once every request of the workload has finished.
    fn step(&mut self) -> Result<bool, String> {
        let arrival = self.next_arrival_at().filter(|_| !self.is_checking());
        let due = self.drives.iter().filter_map(Drive::next_due).min();
        let vanishes = self.faults.vanishes.map(|(_, when)| when).filter(|_| arrival.is_some());
        let timeout = self.timeout();
        if arrival.is_none() && self.open.is_empty() || self.is_cut() {
            return Ok(false);
        }
        let next = [arrival, due, vanishes, timeout].into_iter().flatten().min();
        let Some(next) = next else {
            return Err(format!("{} requests are stuck: no event is pending", self.open.len()));
        };
        self.now = self.now.max(next);
        self.decay();
        if vanishes == Some(next) {
            self.vanish();
        } else if due == Some(next) {
            self.answer();
        } else if arrival == Some(next) {
            let arrival = self.next_arrival();
            self.submit(arrival);
        } else {
            self.call_at_timer(next);
        }
        self.after_event()?;
        Ok(true)
    }

    /// Takes all pending operations and finished requests, and checks the whole.
    fn after_event(&mut self) -> Result<(), String> {
        if self.is_cut() {
            return Ok(());
        }
        self.scrub()?;
        self.follow()?;
        self.follow_home();
        if self.power.is_some() && self.random.one_in(2) {
            // In half of the cases, requests are answered before the operations of the same answer
            // start.
            self.take_finished()?;
        }
        while let Some(operation) = self.volume.next_operation() {
            self.check_operation(&operation)?;
            self.patience = Nanoseconds::ZERO;
            self.operations_since_end += 1;
            let command = operation.command;
            if self.is_cut_now(command) {
                return Ok(());
            }
            self.note_placement(&operation);
            self.start(operation);
            if self.is_cut_now(command) {
                return Ok(());
            }
        }
        self.take_finished()?;
        self.check_whole()
    }

    fn start(&mut self, operation: Operation<Tags>) {
        for operation in self.saboteur.pass(operation, &mut self.random) {
            let member = operation.target;
            let block = self.holds.as_ref().and_then(|_| self.block_of(&operation));
            self.drives[usize::from(member)].start(self.now, operation, &mut self.random);
            self.hold(member, block);
            self.vanish_soon();
        }
    }

    fn take_finished(&mut self) -> Result<(), String> {
        while let Some(finished) = self.volume.next_finished() {
            self.operations_since_end = 0;
            let Some(request) = self.open.remove(&finished.token.0) else {
                return Err(format!("{:?} finished twice or never arrived", finished.token));
            };
            self.check_finished(request, finished.status, &finished.payload)?;
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<(), String> {
        let drives = &self.drives;
        self.atlas.follow(
            self.volume.view(),
            self.shadow.now(),
            |member| drives[member].is_gone(),
            self.volume.newest_is_gone(),
            self.shadow.under_way(),
        )?;
        let refusing = self.atlas.read_only();
        if self.refuses && refusing > std::mem::replace(&mut self.report.read_only, refusing) {
            self.cut_soon();
        }
        Ok(())
    }

    fn submit(&mut self, arrival: Arrival) {
        let Arrival { unit, kind, range, fua, flat } = arrival;
        let number = flat.map(|flat| self.shadow.begin(self.now, kind, flat, fua));
        let payload = Tags::of_arrival(&arrival, number);
        self.tell(|| format!("arrives {number:?}: {kind:?} {flat:?} fua {fua}"));
        self.tokens += 1;
        self.last_request = Some(self.now);
        self.open.insert(self.tokens, number);
        let command = Command { kind, range, fua };
        self.volume.submit(self.now, Operation { token: Token(self.tokens), target: unit, command, payload });
    }

    /// Lets a drive end the operation that is due first.
    fn answer(&mut self) {
        let due = |drive: &Drive| drive.next_due().unwrap_or(Nanoseconds::MAX);
        let next = (0..self.drives.len()).min_by_key(|&member| due(&self.drives[member]));
        if let Some(completion) = next.and_then(|member| self.end_next(member)) {
            self.volume.complete(self.now, completion);
        }
    }

    /// Ends the next operation of a drive. Returns the operation's completion, unless the power is
    /// cut at this operation.
    fn end_next(&mut self, member: usize) -> Option<Completion<Tags>> {
        let ended = self.drives[member].end_next(&mut self.random)?;
        let mut ended = self.saboteur.ended(ended)?;
        self.saboteur.serve(&mut ended, &self.drives[member], &mut self.random);
        let Ended { operation, completion, spoilt } = ended;
        self.report.operations += 1;
        self.tell(|| format!("  member {member} ends {:?}: {:?}", operation.command, completion.status));
        if !matches!(completion.status, Status::Done | Status::Unsupported) {
            self.atlas.note_fault(operation.target, self.shadow.now());
            match operation.command {
                Command { kind: OpKind::Flush, .. } => self.note_failed_flush(member),
                Command { fua: true, .. } => self.atlas.note_failed_force(self.shadow.now()),
                _ => {}
            }
        }
        if operation.command.kind == OpKind::Flush {
            // A move may flush long after the last request.
            self.last_request = Some(self.now);
        }
        self.note_read_of_slot(&operation, completion.status);
        for sector in spoilt {
            self.suspect_home(member, sector);
        }
        (!self.is_cut_now(operation.command)).then_some(completion)
    }

    /// Marks the block of a slot as suspect whose reads have all failed, although each read would
    /// have succeeded if it had been repeated: no volume repeats a read for ever.
    fn note_read_of_slot(&mut self, operation: &Operation<Tags>, status: Status) {
        let Operation { target, command: Command { kind, range, .. }, .. } = *operation;
        let view = self.volume.view();
        let size = view.block().sectors();
        let region = view.layout.slots.filter(|slots| slots.member == MemberId(target) && kind == OpKind::Read);
        let Some(region) = region.filter(|slots| range.start.0 >= slots.first_sector && range.len.0 <= size) else {
            return;
        };
        let slot = ((range.start.0 - region.first_sector) / size) as u32;
        if status == Status::Done {
            self.failed_reads.remove(&slot);
            return;
        }
        let failed = self.failed_reads.entry(slot).or_default();
        *failed += 1;
        if *failed >= READS_OF_A_SLOT_MIN
            && let Some(entry) = view.map.in_slot(Slot(slot)).filter(|_| slot < region.count)
        {
            self.atlas.suspect(entry.block);
        }
    }

    /// Marks the block of a sector that became unreadable as suspect, if the sector lies at home.
    fn suspect_home(&mut self, member: usize, sector: u64) {
        let view = self.volume.view();
        let range = SectorRange::new(sector, 1);
        let region = region_of(&view.layout, MemberId(member as u16), self.drives[member].capacity(), range);
        if let Some(Region::Home(flat)) = region {
            let block = view.block().block_of(flat);
            self.atlas.suspect(block);
        }
    }

    fn vanish(&mut self) {
        let Some((member, _)) = self.faults.vanishes.take() else { return };
        self.drives[usize::from(member)].vanish();
        if let Some(returns) = &mut self.returns {
            self.drives[usize::from(member)].carry_out_some(&mut self.random);
            returns.draw_another(self.drives.len(), &mut self.random);
        }
        self.atlas.note_fault(member, self.shadow.now());
        if self.random.one_in(2) {
            self.volume.member_gone(self.now, MemberId(member));
        } else {
            self.volume.advance(self.now);
        }
    }

    /// Lets sectors at rest become unreadable, anywhere, or rot, in slots.
    fn decay(&mut self) {
        if !self.random.one_in(self.faults.decay) {
            return;
        }
        let view = self.volume.view();
        let size = view.block();
        let slots = view.layout.slots.filter(|_| self.random.one_in(2));
        if let Some(region) = slots {
            let slot = Slot(self.random.below(u64::from(region.count)) as u32);
            self.decay_slot(slot);
        } else {
            let block = Block(self.random.below(view.layout.total_blocks()));
            let (member, first, _) = view.layout.home_of(block);
            self.drives[usize::from(member.0)].spoil(first + self.random.below(size.sectors()));
            self.atlas.suspect(block);
        }
    }

    /// Lets a sector of `slot` become unreadable or rot.
    fn decay_slot(&mut self, slot: Slot) {
        let view = self.volume.view();
        let size = view.block();
        let Some(region) = view.layout.slots else { return };
        let Some(entry) = view.map.in_slot(slot) else { return };
        let sector = region.first_sector + u64::from(slot.0) * size.sectors() + self.random.below(size.sectors());
        let drive = &mut self.drives[usize::from(region.member.0)];
        if drive.under_way(SectorRange::new(sector, 1), OpKind::changes_content).is_some() {
            return;
        }
        let rots = self.random.one_in(2) && self.volume.is_trusted(slot);
        if self.trace {
            let how = if rots { "rots" } else { "cannot be read" };
            eprintln!("{} {region:?}: sector {sector} {how}, of {slot:?}, {entry:?}", self.now);
        }
        if rots {
            drive.rot(sector);
            if region.kind == SlotKind::Cache {
                let first = size.first_sector(entry.block);
                self.shadow.distrust(SectorRange::new(first, size.sectors()));
            }
        } else {
            drive.spoil(sector)
        }
        if entry.dirty {
            self.atlas.suspect(entry.block);
        }
        if entry.dirty && rots && self.has_log() {
            self.note_rot_in_log(entry.block);
        }
    }

    /// Returns the home of a sector: the member, and the sector on that member. Copies on other
    /// members lie at the same place.
    fn home_of(&self, sector: u64) -> (MemberId, u64) {
        let layout = &self.volume.view().layout;
        let block = layout.block.block_of(sector);
        let (member, first, _) = layout.home_of(block);
        (member, first + sector - layout.block.first_sector(block))
    }

    /// Returns the slot with the newest content of a sector, if a slot has it.
    fn slot_of(&self, sector: u64) -> Option<Slot> {
        let view = self.volume.view();
        let size = view.block();
        let block = size.block_of(sector);
        let eighth = (sector - size.first_sector(block)) / size.eighth_sectors();
        let has_it = |(_, entry): &(Slot, Entry)| entry.dirty && entry.valid.0 >> eighth & 1 == 1;
        // Most blocks have one piece at most.
        let first = view.map.get(block)?;
        let newest = Some(first).filter(has_it).or_else(|| view.map.pieces(block).iter().copied().find(has_it));
        newest.map(|(slot, _)| slot)
    }

    fn tell(&self, what: impl Fn() -> String) {
        if self.trace {
            eprintln!("{} {}", self.now, what());
        }
    }

    fn hash(&mut self, values: &[u64]) {
        for value in values {
            self.report.hash = (self.report.hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    /// Lets pending work come to rest after the last request. A timer that fires for ever is not
    /// waited for.
    fn settle(&mut self) -> Result<(), String> {
        self.faults = Faults { decay: 0, vanishes: None };
        self.holds = None;
        self.drives.iter_mut().for_each(Drive::calm);
        self.idle()?;
        self.check_reasons()
    }

    /// Reads every touched sector, and in a case with cuts all other sectors too.
    fn read_back(&mut self) -> Result<(), String> {
        let sectors = self.volume.view().layout.total_blocks() * self.volume.view().block().sectors();
        let mut sector = 0;
        let units: Vec<u64> = self.volume.units().map(|len| len.0).collect();
        while sector < sectors || !self.open.is_empty() {
            while sector < sectors && self.open.len() < 32 {
                if self.power.is_some() || self.shadow.is_touched(sector) {
                    sector += self.read_back_from(sector, &units);
                    self.after_event()?;
                } else {
                    sector += 1;
                }
            }
            if !self.open.is_empty() {
                self.step()?;
            }
        }
        Ok(())
    }

    /// Submits a read from `sector` on. Returns the number of sectors of the read.
    fn read_back_from(&mut self, sector: u64, units: &[u64]) -> u64 {
        let mut first = 0;
        let mut unit = 0;
        while sector >= first + units[unit] {
            first += units[unit];
            unit += 1;
        }
        let len = self.readable_together(sector, READ_BACK_SECTORS.min(first + units[unit] - sector));
        let range = SectorRange::new(sector - first, len);
        let flat = Some(SectorRange::new(sector, len));
        self.submit(Arrival { unit: unit as u16, kind: OpKind::Read, range, fua: false, flat });
        len
    }
}
