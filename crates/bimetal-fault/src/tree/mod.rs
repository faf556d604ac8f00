//! Trees of volumes under random requests, failing or vanishing drives, and power cuts, seen only
//! from outside.
//!
//! A tree is drawn around any scheme ([`shape`]). Members of volumes are drives or further volumes.
//! The checks do not use the inner state of a tree:
//! - Every request finishes.
//! - Every read returns a value that the shadow allows.
//! - Flushed data survive a cut, and values read after a cut stay.
//! - Without faults, no request may end with an error.
//! - If a drive vanishes below a mirror, no request may end with an error either.
//!
//! After a cut, volumes recover from the leaves up (`recovery.rs`). A volume that cannot be
//! recovered is a missing member of the volume above.

mod recovery;
pub mod shape;

use std::collections::BTreeMap;

use bimetal_core::operation::{Command, Completion, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::units::{Nanoseconds, SectorRange};
use recovery::Part;
use shape::{Drawn, Shape};

use crate::case::{Arrival, Scale, Workload, draw_plan};
use crate::drive::{Drive, Plan};
use crate::payload::Tags;
use crate::random::Random;
use crate::shadow::Shadow;
use crate::tester::{Failure, Options, Report, guarded};

/// Largest number of events without a finished request while requests are open. More events mean a
/// livelock.
const EVENTS_MAX: u64 = 2_000_000;
/// Sectors per read when the whole volume is read back.
const READ_BACK_SECTORS: u64 = 96;

/// Runs the case `seed` of a tree whose outermost volume has `scheme`.
///
/// # Errors
/// Returns the first violation. A panic of the engine counts as a violation.
pub fn run_tree_case(scheme: &'static SchemeInfo, seed: u64) -> Result<Report, Box<Failure>> {
    run(scheme, seed, |random| Shape::draw(scheme, random))
}

/// Runs the case `seed` of the tree `shape`.
///
/// # Errors
/// Returns the same errors as [`run_tree_case`].
pub fn run_shape_case(shape: &Shape, seed: u64) -> Result<Report, Box<Failure>> {
    run(shape.scheme(), seed, |_| shape.clone())
}

fn run(scheme: &'static SchemeInfo, seed: u64, shape: impl Fn(&mut Random) -> Shape) -> Result<Report, Box<Failure>> {
    guarded(scheme, seed, Options::default(), |description| {
        let mut random = Random::new(seed.wrapping_mul(3) ^ 0x7265_6573);
        let drawn = Drawn::draw(&mut random, shape);
        let mut tester = TreeTester::new(drawn, random);
        description.clone_from(&tester.description());
        tester.run()
    })
}

/// Faults of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// No part fails; only the power is cut.
    None,
    /// A leaf, by its number, that vanishes at a time.
    Vanishes(u16, Nanoseconds),
    /// Operations of every leaf fail at times.
    Errors,
}

/// See the [module](self).
struct TreeTester {
    drawn: Drawn,
    /// Drives of the leaves. The last drive of the list is gone, and stands for missing members.
    drives: Vec<Drive>,
    /// The tree, while the power is on.
    tree: Option<Part>,
    random: Random,
    shadow: Shadow,
    workload: Option<Workload>,
    trouble: Trouble,
    now: Nanoseconds,
    /// Open requests by token, with their number in the shadow; `None` for a request outside its
    /// unit.
    open: BTreeMap<u64, Option<u32>>,
    tokens: u64,
    /// Number of starts and ends of operations until the power is cut.
    countdown: Option<u64>,
    cut: bool,
    /// Number of events since a request finished, or since the recovery of a volume began.
    events: u64,
    report: Report,
}

impl TreeTester {
    fn new(drawn: Drawn, mut random: Random) -> Self {
        let leaves = drawn.leaves.len() as u64;
        let trouble = match random.below(4) {
            0 => {
                let bits = random.between(20, 38);
                Trouble::Vanishes(random.below(leaves) as u16, Nanoseconds(random.below(1 << bits)))
            }
            1 => Trouble::Errors,
            _ => Trouble::None,
        };
        let mut drive = |capacity: u64| {
            let drawn = draw_plan(&mut random, trouble == Trouble::Errors);
            let latency = Nanoseconds(random.pick(&[10_000, 100_000, 1_000_000]));
            // From outside, the sectors that a forgetting leaf has cost are unknown.
            Drive::new(capacity, latency, Plan { forgets: false, ..drawn }).with_write_cache()
        };
        let mut drives: Vec<Drive> = drawn.leaves.iter().map(|&capacity| drive(capacity)).collect();
        drives.push(Drive::new(1, Nanoseconds(1), Plan::default()).with_write_cache());
        drives[leaves as usize].vanish();
        Self {
            drawn,
            drives,
            tree: None,
            random,
            shadow: Shadow::default(),
            workload: None,
            trouble,
            now: Nanoseconds::ZERO,
            open: BTreeMap::new(),
            tokens: 0,
            countdown: None,
            cut: false,
            events: 0,
            report: Report::default(),
        }
    }

    fn description(&self) -> String {
        format!("a tree: {} {:?}", self.drawn.description, self.trouble)
    }

    fn run(&mut self) -> Result<Report, String> {
        let plans: Vec<Plan> = self.drives.iter_mut().map(|drive| drive.replace_plan(Plan::default())).collect();
        if !self.format()? {
            return Err("sound drives cannot be made a tree".into());
        }
        for (drive, plan) in self.drives.iter_mut().zip(plans) {
            drive.replace_plan(plan);
        }
        let volume = self.tree.as_ref().expect("the power is on").tree.outermost();
        let sectors = volume.view().layout.total_blocks() * volume.view().block().sectors();
        self.workload = Some(Workload::draw(volume, Scale::Small, &mut self.random));
        self.shadow = Shadow::new(sectors);
        for _ in 0..self.random.between(0, 3) {
            let bits = self.random.between(1, 11);
            self.countdown = Some(self.random.below(1 << bits));
            self.serve()?;
            self.cut_power();
            if !self.recover_to_the_end()? {
                return self.end();
            }
            self.read_back()?;
            self.read_back()?;
        }
        self.serve()?;
        self.read_back()?;
        self.end()
    }

    fn end(&self) -> Result<Report, String> {
        Ok(self.report)
    }

    fn tree(&mut self) -> &mut Part {
        self.tree.as_mut().expect("the power is on")
    }

    /// Recovers the tree, with cuts during recovery. Returns false if the volume is lost for a
    /// reason that the tester accepts.
    fn recover_to_the_end(&mut self) -> Result<bool, String> {
        for attempt in 0.. {
            let bits = self.random.between(0, 7);
            let cut = attempt < 4 && self.random.one_in(3);
            self.countdown = cut.then(|| self.random.below(1 << bits));
            let recovered = self.recover()?;
            if self.cut {
                self.report.cut_recoveries += 1;
                self.cut_power();
            } else if recovered {
                self.countdown = None;
                return Ok(true);
            } else if self.may_fail() {
                return Ok(false);
            } else {
                return Err("recovery fails and no fault explains it".into());
            }
        }
        unreachable!("attempts have no end")
    }

    /// Returns true if a fault explains any error. A leaf that vanishes below a mirror explains no
    /// failed request.
    fn may_fail(&self) -> bool {
        match self.trouble {
            Trouble::None => false,
            Trouble::Vanishes(leaf, _) => self.drives[usize::from(leaf)].is_gone() && !self.drawn.is_spared(leaf),
            Trouble::Errors => true,
        }
    }

    fn cut_power(&mut self) {
        self.report.cuts += 1;
        self.shadow.cut();
        self.open.clear();
        self.tree = None;
        for drive in &mut self.drives {
            drive.power_cut(&mut self.random);
        }
        (self.cut, self.countdown) = (false, None);
        let now = self.now;
        if let Some(workload) = &mut self.workload {
            workload.wait_until(now);
        }
    }

    /// Counts the start or end of an operation. Returns true if the power is cut or was ever cut.
    fn is_cut_now(&mut self) -> bool {
        if let Some(countdown) = &mut self.countdown {
            self.cut |= *countdown == 0;
            *countdown = countdown.saturating_sub(1);
        }
        self.cut
    }

    /// Issues requests until none are left or the power is cut.
    fn serve(&mut self) -> Result<(), String> {
        loop {
            let arrival = self.workload.as_ref().and_then(Workload::next_at);
            if self.cut || (arrival.is_none() && self.open.is_empty()) {
                return Ok(());
            }
            if let Some(at) = arrival.filter(|&at| self.next_event().is_none_or(|next| at <= next)) {
                self.now = self.now.max(at);
                let next = self.workload.as_mut().map(|workload| workload.next(&mut self.random));
                next.into_iter().for_each(|arrival| self.submit(arrival));
                self.take()?;
            } else {
                self.event()?;
            }
        }
    }

    fn next_event(&mut self) -> Option<Nanoseconds> {
        let timeout = self.tree().tree.next_timeout();
        self.drives.iter().filter_map(Drive::next_due).chain(timeout).min()
    }

    /// Handles the next event of drives and timers.
    fn event(&mut self) -> Result<(), String> {
        // A short timer fires millions of times between two requests that are hours apart.
        self.events += u64::from(!self.open.is_empty());
        if self.events > EVENTS_MAX {
            return Err(format!("{} requests are still under way after too many events", self.open.len()));
        }
        let Some(next) = self.next_event() else {
            let states = self.tree().tree.volumes().map(|volume| {
                let view = volume.view();
                (volume.requests_under_way(), view.moving, view.waiting_for_slots, view.free_slots, view.freeing_slots)
            });
            let states: Vec<_> = states.collect();
            let what = "volume by volume: requests under way, whether it moves, waiting for slots, free, being freed";
            return Err(format!("{} requests are stuck: no event is pending; {what}: {states:?}", self.open.len()));
        };
        self.now = self.now.max(next);
        if let Trouble::Vanishes(leaf, when) = self.trouble
            && when <= self.now
        {
            self.drives[usize::from(leaf)].vanish();
        }
        match self.end_due() {
            Some((leaf, completion)) => {
                let now = self.now;
                self.tree().complete(now, leaf, completion);
            }
            None if !self.cut => {
                let now = self.now;
                self.tree().tree.advance(now);
            }
            None => {}
        }
        self.take()
    }

    /// Ends the operation that is due first, if it is due now. Returns `None` if the power is cut
    /// at this operation.
    fn end_due(&mut self) -> Option<(u16, Completion<Tags>)> {
        let due = |drive: &Drive| drive.next_due().unwrap_or(Nanoseconds::MAX);
        let leaf = (0..self.drives.len()).min_by_key(|&leaf| due(&self.drives[leaf]))?;
        if due(&self.drives[leaf]) > self.now {
            return None;
        }
        let ended = self.drives[leaf].end_next(&mut self.random)?;
        self.report.operations += 1;
        self.report.faults += u64::from(!matches!(ended.completion.status, Status::Done | Status::Unsupported));
        (!self.is_cut_now()).then_some((leaf as u16, ended.completion))
    }

    /// Starts an operation on a leaf. Returns false if the power is cut at this operation.
    fn start(&mut self, operation: Operation<Tags>) -> bool {
        if self.is_cut_now() {
            return false;
        }
        let (now, leaf) = (self.now, usize::from(operation.target));
        self.drives[leaf].start(now, operation, &mut self.random);
        !self.is_cut_now()
    }

    /// Takes all pending operations and finished requests from the tree.
    fn take(&mut self) -> Result<(), String> {
        while let Some(operation) = self.tree.as_mut().filter(|_| !self.cut).and_then(Part::next_operation) {
            if !self.start(operation) {
                return Ok(());
            }
        }
        while let Some(finished) = self.tree.as_mut().filter(|_| !self.cut).and_then(|part| part.tree.next_finished()) {
            let Some(request) = self.open.remove(&finished.token.0) else {
                return Err(format!("{:?} finished twice or never arrived", finished.token));
            };
            self.check_finished(request, &finished)?;
        }
        Ok(())
    }

    fn check_finished(&mut self, number: Option<u32>, finished: &Completion<Tags>) -> Result<(), String> {
        self.events = 0;
        self.report.requests += 1;
        self.report.failed += u64::from(finished.status != Status::Done);
        let Some(number) = number else {
            let outside = finished.status == Status::OutOfRange;
            return if outside { Ok(()) } else { Err(format!("outside of its unit: {:?}", finished.status)) };
        };
        self.shadow.end(number, finished.status);
        let request = self.shadow.request(number).clone();
        if finished.status != Status::Done {
            let unsupported = finished.status == Status::Unsupported && request.kind == OpKind::Discard;
            let explained = unsupported || self.may_fail();
            let message = || format!("{:?} and no fault explains it: {request:?}", finished.status);
            return if explained { Ok(()) } else { Err(message()) };
        }
        if request.kind == OpKind::Read {
            if finished.payload.sectors() != request.range.len {
                return Err(format!("a read of {:?} returned {:?}", request.range.len, finished.payload.sectors()));
            }
            for (sector, value) in (request.range.start.0..).zip(finished.payload.iter()) {
                self.shadow.check_read(sector, &value, request.began)?;
            }
        }
        Ok(())
    }

    fn submit(&mut self, arrival: Arrival) {
        let Arrival { unit, kind, range, fua, flat } = arrival;
        let number = flat.map(|flat| self.shadow.begin(self.now, kind, flat, fua));
        let payload = Tags::of_arrival(&arrival, number);
        self.tokens += 1;
        self.open.insert(self.tokens, number);
        let (now, token) = (self.now, Token(self.tokens));
        let command = Command { kind, range, fua };
        self.tree().tree.submit(now, Operation { token, target: unit, command, payload });
    }

    /// Reads every sector.
    fn read_back(&mut self) -> Result<(), String> {
        let units: Vec<u64> = self.tree().tree.units().map(|len| len.0).collect();
        let mut flat = 0;
        for (unit, len) in units.into_iter().enumerate() {
            for first in (0..len).step_by(READ_BACK_SECTORS as usize) {
                let count = READ_BACK_SECTORS.min(len - first);
                let (range, whole) = (SectorRange::new(first, count), SectorRange::new(flat + first, count));
                let (unit, kind, flat) = (unit as u16, OpKind::Read, Some(whole));
                self.submit(Arrival { unit, kind, range, fua: false, flat });
                self.take()?;
                while !self.open.is_empty() {
                    self.event()?;
                }
            }
            flat += len;
        }
        Ok(())
    }
}
