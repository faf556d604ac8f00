//! A home that other programs use as a plain disk. The volume is drained and closed, and other
//! programs write to the drive itself. The next start of the volume must show their writes. Older
//! content of the cache must not be returned.

use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Command, OpKind, Operation, Status, Token};
use bimetal_core::payload::Payload;
use bimetal_core::units::{SectorRange, Sectors};
use bimetal_core::volume::Drain;

use super::Tester;
use crate::payload::Tags;

/// Number of writes to the plain disk.
const WRITES: u64 = 40;
/// Largest number of sectors of one such write.
const WRITE_SECTORS: u64 = 200;

impl Tester {
    /// Drains the volume, closes it, and writes to its home as another program would. Returns false
    /// if the volume could not be drained or closed.
    pub(super) fn use_home_as_plain_disk(&mut self) -> Result<bool, String> {
        let layout = &self.volume.view().layout;
        let homes = layout.homes();
        let &[home] = homes.as_slice() else { return Ok(false) };
        let Some(slots) = layout.slots.map(|slots| slots.member).filter(|&slots| slots != home) else {
            return Ok(false);
        };
        let is_sound = |member: MemberId| {
            let drive = &self.drives[usize::from(member.0)];
            !drive.is_gone() && !drive.is_refusing() && !self.atlas.has_given_up(member)
        };
        if layout.places.is_some() || !is_sound(home) {
            return Ok(false);
        }
        let detach = self.random.one_in(2);
        self.tell(|| format!("drains, detach {detach}"));
        if detach {
            self.atlas.let_go(slots);
        }
        self.volume.drain(self.now, detach);
        self.after_event()?;
        self.idle()?;
        if self.volume.drain_progress() != Drain::Done {
            return Ok(false);
        }
        self.volume.close(self.now);
        self.after_event()?;
        self.idle()?;
        if !self.volume.is_closed() {
            return Err("a drained volume does not close".into());
        }
        let total = self.volume.view().layout.total_blocks() * self.volume.view().block().sectors();
        for _ in 0..WRITES {
            let start = self.random.below(total);
            let len = self.random.between(1, WRITE_SECTORS).min(total - start);
            self.write_to_plain_disk(home, SectorRange::new(start, len));
        }
        Ok(true)
    }

    fn write_to_plain_disk(&mut self, home: MemberId, flat: SectorRange) {
        let number = self.shadow.begin(self.now, OpKind::Write, flat, true);
        self.tell(|| format!("the plain disk takes {number}: {flat:?}"));
        let all = Tags::written(number, flat.start.0, flat.len.0);
        let layout = &self.volume.view().layout;
        let size = layout.block;
        let pieces = size.touched(flat).blocks().map(|block| {
            let part = size.clip(flat, block);
            let (member, first, _) = layout.home_of(block);
            assert_eq!(member, home, "it is the only home");
            let at = SectorRange { start: Sectors(first + part.start.0 - size.first_sector(block)), ..part };
            (at, all.slice(part.start - flat.start, part.len))
        });
        let pieces: Vec<(SectorRange, Tags)> = pieces.collect();
        let mut status = Status::Done;
        for (range, payload) in pieces {
            let command = Command { kind: OpKind::Write, range, fua: true };
            let operation = Operation { token: Token(0), target: home.0, command, payload };
            let drive = &mut self.drives[usize::from(home.0)];
            drive.start(self.now, operation, &mut self.random);
            let ended = drive.end_next(&mut self.random).expect("it has one operation");
            if ended.completion.status != Status::Done {
                status = ended.completion.status;
            }
        }
        self.shadow.end(number, status);
    }
}
