//! Members that vanish and come back, in the run of a case.
//!
//! A case is two to four lives of one volume. In each life a member vanishes after some operation,
//! and sometimes another member soon after. Operations under way end as [`Status::Gone`]; the
//! member may have carried some of them out. Requests arrive after that, too. In half of the cases,
//! drives hold operations back, so that members vanish while an operation is under way. The life
//! ends at a power cut, or with a flush and a close. At the next start the member is back, with or
//! without what its write cache had. Some starts are without a member, which is back at the start
//! after that.
//!
//! After each start every sector is read, and must have content that a flush promised, or later
//! content. In some lives the volume is drained and detached next. The content must stay the same.
//!
//! [`Status::Gone`]: bimetal_core::operation::Status::Gone

use bimetal_core::layout::MemberId;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SectorRange};

use super::{Report, Tester};
use crate::case::Faults;
use crate::random::Random;

/// Largest number of requests of a life.
const REQUESTS_MAX: u64 = 60;
/// Longest time from the operation after which a member vanishes until it vanishes.
const DELAY_MAX: Nanoseconds = Nanoseconds::from_millis(20);

/// The member that vanishes in the present life.
#[derive(Default)]
pub(super) struct Returns {
    /// The member, and the number of operations after which it vanishes.
    next: Option<(u16, u64)>,
}

impl Returns {
    /// Draws the member that vanishes in a life: often the member with the slots.
    fn draw(&mut self, members: usize, slots: Option<MemberId>, random: &mut Random) {
        let any = random.below(members as u64) as u16;
        let member = slots.filter(|_| random.one_in(2)).map_or(any, |slots| slots.0);
        let bits = random.between(0, 7);
        self.next = (!random.one_in(6)).then(|| (member, random.below(1 << bits)));
    }

    /// Draws whether another member vanishes soon after a member has vanished.
    pub(super) fn draw_another(&mut self, members: usize, random: &mut Random) {
        if random.one_in(3) {
            self.next = Some((random.below(members as u64) as u16, random.below(8)));
        }
    }

    /// Counts an operation. Returns the member that vanishes after it.
    fn count(&mut self) -> Option<u16> {
        let (member, left) = self.next.as_mut()?;
        if *left == 0 {
            let member = *member;
            self.next = None;
            return Some(member);
        }
        *left -= 1;
        None
    }
}

impl Tester {
    /// Runs the lives of the case.
    pub(super) fn run_returns(mut self) -> Result<Report, String> {
        if !self.switch_on()? {
            return Ok(self.report);
        }
        let lives = self.random.between(2, 4);
        for _ in 0..lives {
            self.live()?;
            self.bring_back();
            self.cut_power();
            if !self.recover()? {
                return Ok(self.report);
            }
            self.check_everything()?;
            if self.random.one_in(4) {
                let detach = self.random.one_in(2);
                self.drain(detach)?;
                self.check_everything()?;
            }
            self.workload.wait_until(self.now);
        }
        self.count_statistics();
        Ok(self.report)
    }

    /// Lets requests arrive for one life, in which a member vanishes.
    fn live(&mut self) -> Result<(), String> {
        let slots = self.volume.view().layout.slots.map(|slots| slots.member);
        let members = self.drives.len();
        if let Some(returns) = &mut self.returns {
            returns.draw(members, slots, &mut self.random);
        }
        if self.random.one_in(2) {
            self.plan_cut();
        }
        let most = self.random.between(1, REQUESTS_MAX).min(self.workload.left);
        let later = std::mem::replace(&mut self.workload.left, most) - most;
        while self.step()? {}
        if !self.is_cut() {
            self.idle()?;
            self.stop()?;
        }
        self.workload.left += later;
        self.faults.vanishes = None;
        Ok(())
    }

    /// Counts an operation that has just started. The member of this life vanishes soon after its
    /// operation.
    pub(super) fn vanish_soon(&mut self) {
        let is_checking = self.is_checking();
        let Some(member) = self.returns.as_mut().filter(|_| !is_checking).and_then(Returns::count) else {
            return;
        };
        if !self.drives[usize::from(member)].is_gone() {
            let delay = self.random.below(DELAY_MAX.0);
            let delay = if self.random.one_in(2) { delay / 1000 } else { delay };
            self.faults.vanishes = Some((member, self.now + Nanoseconds(delay)));
        }
    }

    /// Stops the volume in half of the cases as a server does: a flush, and then a close, whatever
    /// the status of the flush.
    fn stop(&mut self) -> Result<(), String> {
        if self.random.one_in(2) {
            return Ok(());
        }
        let flush = self.workload.request(OpKind::Flush, SectorRange::default(), false);
        self.submit(flush);
        self.after_event()?;
        while self.step()? {}
        if self.is_cut() {
            return Ok(());
        }
        self.volume.close(self.now);
        self.after_event()?;
        self.idle()
    }

    /// Brings every drive back that is gone. A drive that only its cable left has what was in its
    /// write cache.
    fn bring_back(&mut self) {
        let layout = &self.volume.view().layout;
        let slots = layout.slots.map(|slots| slots.member);
        let is_mirrored = layout.is_mirrored();
        for number in 0..self.drives.len() {
            let member = MemberId(number as u16);
            let stays_away = slots == Some(member) && !self.may_slots_come_back();
            if !self.drives[number].is_gone() || stays_away {
                continue;
            }
            self.drives[number].come_back();
            if self.random.one_in(2) {
                self.drives[number].keep_unflushed();
            }
            self.report.returns += 1;
            if slots == Some(member) {
                self.power().slots_are_back = true;
            } else if !is_mirrored {
                self.atlas.comes_back(member);
            }
        }
    }

    /// Drains the volume as far as its drives let it.
    fn drain(&mut self, detach: bool) -> Result<(), String> {
        let layout = &self.volume.view().layout;
        let Some(slots) = layout.slots.map(|slots| slots.member) else { return Ok(()) };
        self.tell(|| format!("drains, detach {detach}"));
        if detach {
            self.atlas.let_go(slots);
        }
        self.faults = Faults { decay: 0, vanishes: None };
        self.volume.drain(self.now, detach);
        self.after_event()?;
        self.idle()?;
        self.volume.end_drain(self.now);
        self.after_event()
    }
}
