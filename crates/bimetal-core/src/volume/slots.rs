//! Slots and the block map: giving a slot to a block, freeing a slot, and waking the tasks that
//! wait for slots.

use super::{TaskId, Volume};
use crate::block::{Block, BlockRun, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::journal::record::Record;
use crate::payload::Payload;

impl<P: Payload> Volume<P> {
    /// Returns true if recovery would take the content of `slot` unchecked. Recovery checks slots
    /// in doubt against their checksums, and takes a slot that does not match for a write that
    /// never happened. Recovery cannot tell bit rot in data of the last flush from such a write.
    pub fn is_trusted(&self, slot: Slot) -> bool {
        self.store.kind().is_trusted(slot)
    }

    /// Takes `block` out of the block map; its slot becomes free once the record of the removal is
    /// durable.
    pub(super) fn send_home(&mut self, block: Block) {
        self.owe(BlockRun { first: block, count: 1 });
        self.leave_slot(block);
    }

    /// Works as [`send_home`](Self::send_home), for a block whose home has the slot's content.
    pub(super) fn leave_slot(&mut self, block: Block) {
        if self.store.appends() {
            if self.take_pieces(block) {
                self.drop_from_log(BlockRun { first: block, count: 1 });
            }
            return;
        }
        let before = self.before_change(block);
        if let Some(slot) = self.take_from_map(block) {
            let record = self.journal(Record::Home { block });
            self.store.pending.remember_all(record, before);
            self.give_up_slot(slot, record);
        }
    }

    /// Works as [`leave_slot`](Self::leave_slot), for a run of granted copies at once. A mirror in
    /// a simulation may have a hundred million granted copies.
    pub(super) fn leave_granted(&mut self, run: BlockRun) {
        let (first, count) = self.view.map.revoke(run);
        self.decider.scheme.unmapped_run(first, run);
        if self.damage.knows_bad_slots() {
            (first.0..).zip(run.blocks()).for_each(|(slot, block)| self.damage.slot_is_sound(block, Slot(slot)));
        }
        let record = if self.slots_keep_blocks() { 0 } else { self.store.pending.append_homes(run) };
        self.give_up_slots(first, count, record);
    }

    /// Returns the slot and entry of `block`, if they must be remembered until a change of the
    /// block map is durable.
    pub(super) fn before_change(&self, block: Block) -> Option<(Slot, Entry)> {
        (P::CARRIES_DATA && self.store.kind().records_each_change()).then(|| self.view.map.get(block)).flatten()
    }

    /// Records that the log's content of `blocks` up to now is void.
    pub(super) fn drop_from_log(&mut self, blocks: BlockRun) {
        self.owe(blocks);
        self.mover.superseded.forget(blocks);
        if let Some(log) = self.store.log() {
            let before = log.next();
            let record =
                self.store.pending.append(Record::Dropped { first: blocks.first, count: blocks.count, before });
            if P::CARRIES_DATA {
                self.store.pending.remember_dropped(record, blocks);
            }
        }
    }

    /// Takes `block`, or one of its pieces, out of the block map.
    fn take_from_map(&mut self, block: Block) -> Option<Slot> {
        let slot = self.view.map.remove(block)?;
        self.decider.scheme.unmapped(slot, block);
        self.damage.slot_is_sound(block, slot);
        Some(slot)
    }

    /// Takes all pieces of `block` out of the block map of a log. Returns false if the block has no
    /// piece in the log.
    pub(super) fn take_pieces(&mut self, block: Block) -> bool {
        let mut any = false;
        while self.take_from_map(block).is_some() {
            any = true;
        }
        any
    }

    /// Takes one piece of `block` out of the block map of a log; its other pieces stay.
    pub(super) fn take_piece(&mut self, slot: Slot, block: Block) {
        if self.view.map.remove_piece(slot).is_some() {
            self.decider.scheme.unmapped(slot, block);
            self.damage.slot_is_sound(block, slot);
        }
    }

    /// Takes the content of `block` in `slot` out of the block map after a move. A log needs no
    /// record of a move: until the log is truncated, it has the same content as home, and a full
    /// log has no room for a record of each block. A change of home before the truncation leaves a
    /// record.
    pub(super) fn moved_out(&mut self, slot: Slot, block: Block) {
        if self.store.appends() {
            self.take_piece(slot, block);
        } else {
            self.leave_slot(block);
        }
    }

    /// Records that home has the content of `slot`. With `keep` the slot keeps a clean copy;
    /// otherwise it is freed.
    pub(super) fn moved_home(&mut self, slot: Slot, entry: &Entry, keep: bool) {
        if !keep {
            return self.moved_out(slot, entry.block);
        }
        let before = self.before_change(entry.block);
        self.view.map.mark_clean(slot);
        let Entry { block, valid, checksum, .. } = *entry;
        let record = self.journal(Record::Map { block, slot, valid, dirty: false, is_whole: false, checksum });
        self.store.pending.remember_all(record, before);
        if !P::CARRIES_DATA {
            self.store.kind_mut().touch(slot, 1);
        }
    }

    pub(super) fn give_up_slot(&mut self, slot: Slot, record: u64) {
        self.give_up_slots(slot, 1, record);
    }

    /// Gives up `count` adjacent slots. The record numbered `record` is the last that took a block
    /// out of one of these slots.
    fn give_up_slots(&mut self, first: Slot, count: u32, record: u64) {
        let store = self.store.kind_mut();
        if !P::CARRIES_DATA {
            store.touch(first, count);
        }
        if store.give_up(first, count, record, self.tasks.next_serial()) {
            self.view.freeing_slots += u64::from(count);
        }
    }

    /// Returns a cache slot to the free slots; the slot never held a known block.
    pub(super) fn give_back_unused(&mut self, slot: Slot) {
        let store = self.store.kind_mut();
        if store.give_back(slot) {
            self.view.free_slots = store.free();
            self.wake_slot_waiters();
        }
    }

    /// Frees slots that may be free now, and wakes the tasks that wait for slots.
    pub(super) fn release_slots(&mut self) {
        let oldest = self.tasks.oldest_serial();
        if self.store.release(oldest) > 0 {
            self.update_free_slots();
            self.wake_slot_waiters();
        }
    }

    pub(super) fn wake_slot_waiters(&mut self) {
        self.view.waiting_for_slots = 0;
        self.tasks.wake_all(self.requests.waiters.take_for_slots());
    }

    pub(super) fn update_free_slots(&mut self) {
        let store = self.store.kind();
        (self.view.free_slots, self.view.freeing_slots) = (store.free(), store.freeing());
    }

    /// Queues a task until slots are free, and asks the scheme to free some.
    pub(super) fn await_slots(&mut self, task: TaskId) {
        self.statistics.waited += 1;
        self.requests.waiters.await_slots(task);
        self.view.waiting_for_slots = self.requests.waiters.for_slots() as u64;
    }

    pub(super) fn evict(&mut self, slots: &[Slot]) {
        for &slot in slots {
            let entry = self.view.map.in_slot(slot).expect("a scheme evicts slots in use");
            assert!(!entry.dirty, "block {} would be lost: its slot is evicted while dirty", entry.block.0);
            self.send_home(entry.block);
            self.statistics.evicted_blocks += 1;
        }
        // Where there is no journal, no commit frees these slots.
        self.release_slots();
        self.update_free_slots();
    }

    /// Puts `block` into the block map at `slot`, records the change in the journal, and notifies
    /// the scheme.
    pub(super) fn map_block(&mut self, slot: Slot, entry: Entry) {
        if self.store.appends() {
            return self.map_piece(slot, entry);
        }
        let Entry { block, valid, dirty, checksum } = entry;
        let before = self.before_change(block);
        let replaced = self.view.map.insert(slot, entry);
        if let Some(old) = replaced {
            self.damage.slot_is_sound(block, old);
        }
        if !dirty {
            self.mark_if_home_is_unstable(block);
        }
        if self.store.kind().records_each_change() {
            let record = self.journal(Record::Map { block, slot, valid, dirty, is_whole: false, checksum });
            if P::CARRIES_DATA {
                self.store.pending.remember(record, slot, None);
                self.store.pending.remember_all(record, before);
            } else {
                self.store.kind_mut().touch(slot, 1);
            }
            if let Some(old) = replaced {
                self.give_up_slot(old, record);
            }
        }
        self.decider.scheme.mapped(&self.view, slot, valid, replaced);
        // Mapped slots can be moved or evicted for waiting tasks.
        self.requests.waiters.request_work_for_slots();
    }

    /// Puts a piece of a block into the block map of a log. The record is part of the piece's
    /// segment.
    fn map_piece(&mut self, slot: Slot, entry: Entry) {
        self.note_superseded(entry.block);
        let left = self.view.map.insert_piece(slot, entry);
        let (replaced, others) = match left.split_first() {
            Some((&(replaced, _), others)) => (Some(replaced), others),
            None => (None, &[][..]),
        };
        for &(other, _) in others {
            self.decider.scheme.unmapped(other, entry.block);
        }
        left.iter().for_each(|&(other, _)| self.damage.slot_is_sound(entry.block, other));
        self.decider.scheme.mapped(&self.view, slot, entry.valid, replaced);
        self.requests.waiters.request_work_for_slots();
    }

    /// Marks the eighths in `covered`, which were written whole, as no longer lost. An eighth that
    /// was written in part stays lost. Returns true if the journal must record a change.
    pub(super) fn find_again(&mut self, block: Block, covered: ValidMask) -> bool {
        let lost = self.damage.lost.of(block);
        let left = lost.without(covered);
        if left != lost {
            self.set_lost(block, left);
        }
        left != lost
    }

    /// Sets the lost eighths of `block`.
    pub(super) fn set_lost(&mut self, block: Block, eighths: ValidMask) {
        let record = self.store.pending.append(Record::Lost { block, eighths });
        self.damage.set_lost(block, eighths, record);
    }
}
