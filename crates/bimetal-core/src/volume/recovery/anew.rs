//! A cache that recovery makes anew, empty, because nothing of its metadata can be used and its
//! member is home of other blocks, which are sound.
//!
//! A member without blocks of its own is left out instead. Superblocks are erased first, and the
//! erasure is durable before other metadata is erased: a power cut in between leaves a cache
//! without superblocks, and never a cache with a part of its block map. The new superblocks are
//! written last, in an epoch of their own, so that old pages do not count if a drive returns them
//! later.

use super::{Recovery, RecoveryError, Step, superblocks};
use crate::journal::superblock::Superblock;
use crate::journal::turns::{COPIES, TURNS};
use crate::layout::MemberId;
use crate::operation::{Command, OpKind};
use crate::payload::Payload;
use crate::units::SectorRange;
use crate::volume::GaveUp;
use crate::volume::damage::Lost;

/// The step of a cache that begins anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anew {
    /// Erases all superblocks.
    Superblocks,
    FlushingSuperblocks,
    /// Erases all metadata.
    Rest,
    FlushingRest,
    /// Writes superblocks. The number in this phase counts the copies whose write has begun.
    Writing(usize),
}

impl<P: Payload> Recovery<P> {
    /// Returns true if the cache on `member` may begin anew after an error of its content: the
    /// member takes writes, and only the metadata of the cache was being read.
    pub(super) fn may_begin_anew(&self, error: &RecoveryError, member: MemberId) -> bool {
        let is_of_slots = matches!(self.step, Step::Cache(_)) && member == self.volume.member_of_slots();
        error.is_of_content() && is_of_slots && !self.slots_refuse() && !self.has_begun_anew
    }

    /// Begins the cache anew. `lost` is set if the old cache may have had content that home lacks.
    pub(super) fn begin_anew(&mut self, error: RecoveryError, lost: bool) {
        let properties = self.volume.decider.scheme.properties();
        let life = self.life_from_state();
        let volume = &mut self.volume;
        let drive = volume.store.superblock.life().drive;
        volume.view.map = volume.view.map.emptied();
        volume.store.begin_again(&volume.view.layout, &properties, (life, drive));
        volume.damage.lost = Lost::default();
        volume.damage.gave_up = lost.then_some(GaveUp::All);
        volume.damage.began_empty = Some(error);
        self.superblocks = superblocks::Superblocks::default();
        self.repairs.clear();
        self.forget_bad_pages(self.volume.member_of_slots());
        (self.has_begun_anew, self.outcome) = (true, None);
        self.step = Step::Anew(Anew::Superblocks);
        for place in self.superblock_places() {
            self.erase(place);
        }
    }

    /// Takes the end of an operation.
    pub(super) fn anew_goes_on(&mut self) {
        if !self.in_flight.is_empty() || self.outcome.is_some() {
            return;
        }
        if self.slots_refuse() {
            // An erasure failed. Nothing more is erased; the remaining metadata is read again.
            return self.next_step();
        }
        let Step::Anew(phase) = self.step else { return };
        let metadata = self.layout().metadata.expect("slots have metadata");
        let next = match phase {
            Anew::Superblocks | Anew::Rest => {
                self.ask(metadata.member, Command::FLUSH, P::empty(), 0);
                if phase == Anew::Rest { Anew::FlushingRest } else { Anew::FlushingSuperblocks }
            }
            Anew::FlushingSuperblocks => {
                self.erase(SectorRange::new(metadata.first_sector, metadata.sectors));
                Anew::Rest
            }
            Anew::FlushingRest => self.write_new_superblock(0),
            Anew::Writing(begun) if begun < TURNS * COPIES => self.write_new_superblock(begun),
            Anew::Writing(_) => {
                // A member that had been given up takes part again.
                self.attached |= 1 << metadata.member.0;
                self.step = Step::Cache(super::cache::CacheRecovery::default());
                return self.read_superblocks();
            }
        };
        self.step = Step::Anew(next);
    }

    fn write_new_superblock(&mut self, begun: usize) -> Anew {
        let second = self.volume.store.superblock.clone();
        let first = Superblock::first(second.volume, second.life().number, second.life().drive);
        self.write_superblock(if begun < COPIES { &first } else { &second }, begun % COPIES);
        Anew::Writing(begun + 1)
    }

    fn erase(&mut self, range: SectorRange) {
        let member = self.volume.member_of_slots();
        self.ask(member, Command { kind: OpKind::WriteZeroes, range, fua: false }, P::empty(), 0);
    }

    /// Returns an epoch that the old pages on the drive hardly have, made of the number of the
    /// newest state. After a second loss before the next state the epoch is repeated, and only the
    /// durable erasure guards against old pages.
    fn life_from_state(&self) -> u32 {
        let of = [self.volume.store.identity(), self.state.sequence].map(u64::to_le_bytes).concat();
        crc32c::crc32c(&of) >> 1
    }
}
