//! Power cuts in the run of a case: the drives lose what they lose, the volume is gone, another recovers what is left, and
//! everything is read.
//!
//! A cut comes before or after an operation starts, or after it ended and before the engine hears of it. Then every sector is read, twice: the first reading settles what each holds and shows
//! whether a block off its home holds a part of a write; the second, and every one after further cuts, must find the same.

use std::collections::BTreeSet;

use bimetal_core::block::Block;
use bimetal_core::layout::MemberId;
use bimetal_core::operation::{OpKind, Operation};
use bimetal_core::units::SectorRange;
use bimetal_core::volume::Volume;

use super::{Report, Tester};
use crate::case::Faults;
use crate::drive::Drive;
use crate::payload::{Sector, Tags};
use crate::regions::{Region, region_of};

/// When the power is cut, and what the checks after a cut need.
#[derive(Default)]
pub(super) struct Power {
    /// Starts and ends of operations until then.
    countdown: Option<u64>,
    cut: bool,
    /// Everything is being read: no requests arrive meanwhile.
    checking: bool,
    /// What the last reading found.
    pub(super) seen: Option<Vec<Option<Sector>>>,
    /// Blocks of writes that went to their home in place.
    in_place: BTreeSet<(u32, Block)>,
}

impl Tester {
    /// Whether the power was cut.
    pub(super) fn is_cut(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.cut)
    }

    pub(super) fn is_checking(&self) -> bool {
        self.power.as_ref().is_some_and(|power| power.checking)
    }

    /// Counts an event; whether the power is cut at it, or was before.
    pub(super) fn is_cut_now(&mut self) -> bool {
        let Some(power) = &mut self.power else { return false };
        if let Some(countdown) = &mut power.countdown {
            power.cut |= *countdown == 0;
            *countdown = countdown.saturating_sub(1);
        }
        power.cut
    }

    fn power(&mut self) -> &mut Power {
        self.power.as_mut().expect("a case with power cuts")
    }

    /// Remembers where a write of a request goes to its home in place: not off home, and not by a move.
    pub(super) fn note_placement(&mut self, operation: &Operation<Tags>) {
        if self.power.is_none() || operation.command.kind != OpKind::Write {
            return;
        }
        let view = self.volume.view();
        let (layout, size) = (&view.layout, view.block());
        let member = MemberId(operation.target);
        let drive = &self.drives[usize::from(operation.target)];
        let Some(Region::Home(mut at)) = region_of(layout, member, drive.capacity(), operation.command.range) else {
            return;
        };
        let mut placed = Vec::new();
        for (first, len) in operation.payload.runs() {
            let range = SectorRange::new(at, u64::from(len));
            at += u64::from(len);
            let Sector::Data { request, .. } = *first else { continue };
            if self.shadow.request(request).ended.is_some() {
                continue;
            }
            for block in size.touched(range).blocks() {
                let part = size.clip(range, block);
                let from_slot =
                    view.map.get(block).filter(|_| view.moving).zip(layout.slots).is_some_and(|((slot, _), region)| {
                        let into = part.start.0 - size.first_sector(block);
                        let at = region.first_sector + u64::from(slot.0) * size.sectors() + into;
                        let there = self.drives[usize::from(region.member.0)].content(at);
                        matches!(there, Sector::Data { request: other, .. } if other == request)
                    });
                if !from_slot {
                    placed.push((request, block));
                }
            }
        }
        self.power().in_place.extend(placed);
    }

    /// Runs the case from the first power-on on.
    pub(super) fn run_crashes(mut self) -> Result<Report, String> {
        self.power = Some(Power::default());
        self.drives = std::mem::take(&mut self.drives).into_iter().map(Drive::with_write_cache).collect();
        let cuts = self.random.pick(&[1, 1, 1, 2, 3]);
        let faults = self.faults;
        for _ in 0..cuts {
            let bits = self.random.between(1, 11);
            let countdown = self.random.below(1 << bits);
            self.power().countdown = Some(countdown);
            self.faults = faults;
            while self.step()? {}
            if !self.is_cut() {
                self.idle()?;
            }
            self.cut_power();
            self.recover()?;
            self.check_everything()?;
            self.workload.wait_until(self.now);
        }
        self.faults = faults;
        while self.step()? {}
        self.settle()?;
        self.check_everything()?;
        self.count_statistics();
        Ok(self.report)
    }

    /// The power is cut, whether anything is under way or not.
    fn cut_power(&mut self) {
        self.report.cuts += 1;
        self.count_statistics();
        self.shadow.cut();
        self.open.clear();
        self.recent.clear();
        self.cut_drives();
    }

    fn cut_drives(&mut self) {
        self.saboteur.forget();
        for member in 0..self.drives.len() {
            let (manner, unreadable) = self.drives[member].power_cut(&mut self.random);
            self.tell(|| format!("power cut: member {member} {manner:?}"));
            for sector in unreadable {
                self.suspect_home(member, sector);
            }
        }
        let power = self.power();
        (power.cut, power.countdown) = (false, None);
    }

    /// Makes a volume of what is left: where nothing is off home, that is a new one.
    fn recover(&mut self) -> Result<(), String> {
        self.volume = Volume::new(&self.setup.config()).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Reads every sector twice.
    fn check_everything(&mut self) -> Result<(), String> {
        let sectors = (self.volume.view().layout.total_blocks() * self.volume.view().block().sectors()) as usize;
        let faults = std::mem::replace(&mut self.faults, Faults { decay: 0, vanishes: None });
        let power = self.power();
        power.checking = true;
        power.seen = Some(vec![None; sectors]);
        self.read_back()?;
        let size = self.volume.view().block();
        let power = self.power();
        let seen = power.seen.take().unwrap_or_default();
        let in_place = std::mem::take(&mut power.in_place);
        self.shadow.check_whole(
            size,
            |sector| seen.get(sector as usize).and_then(Option::as_ref),
            |write, block| in_place.contains(&(write, block)),
        )?;
        self.read_back()?;
        let power = self.power();
        (power.checking, power.in_place) = (false, in_place);
        self.faults = faults;
        Ok(())
    }
}
