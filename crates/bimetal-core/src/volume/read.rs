//! Reads: each block from its slot, from home, or joined from both; and promotions after a read.

use super::{Job, TaskId, Volume, access};
use crate::block::{Block, BlockRun, BlockSize, ValidMask};
use crate::block_map::{Entry, Slot};
use crate::operation::{Command, OpKind, Status, Token};
use crate::payload::Payload;
use crate::scheme::{Access, Promotion, Reason};
use crate::units::{SectorRange, Sectors};

pub(crate) struct ReadJob<P> {
    token: Token,
    sectors: SectorRange,
    planned: bool,
    status: Status,
    parts: Vec<Part<P>>,
    fragments: Vec<Fragment>,
}

/// One operation of a read.
struct Part<P> {
    source: Source,
    payload: Option<P>,
}

enum Source {
    /// Members asked so far, a bit each; used where every member has each block.
    Home(u64),
    /// Whole slots, with the checksums of their blocks if there is content to check.
    Slots { clean: bool, first: Slot, blocks: BlockRun, checksums: Vec<u32> },
    /// Slots of a log that are read together, in order, with the block and the checksum of each.
    Pieces(Vec<(Slot, Block, u32)>),
}

impl Source {
    /// Returns the slots that are read, each with its block.
    fn held(&self) -> Vec<(Slot, Block)> {
        match self {
            Self::Home(_) => Vec::new(),
            Self::Slots { first, blocks, .. } => (first.0..).map(Slot).zip(blocks.blocks()).collect(),
            Self::Pieces(pieces) => pieces.iter().map(|&(slot, block, _)| (slot, block)).collect(),
        }
    }
}

/// Reads that are planned and not yet issued, because further blocks may join these reads.
#[derive(Default)]
struct Plan {
    /// Sectors that are to be read from home. The next block may continue these sectors: a block of
    /// which a slot has only a part must not split a sequential read of the drive.
    home: Option<SectorRange>,
    /// Pieces to read from a log.
    pieces: Vec<WantedPiece>,
}

/// Eighths of a block to be read from a piece in a log.
struct WantedPiece {
    slot: Slot,
    entry: Entry,
    eighths: ValidMask,
}

/// A run of sectors of a request: its position in a part, and its position in the request.
#[derive(Clone, Copy)]
struct Fragment {
    part: u32,
    part_at: u64,
    request_at: u64,
    sectors: u64,
}

impl<P: Payload> Volume<P> {
    pub(super) fn start_read(&mut self, token: Token, sectors: SectorRange) {
        let access = access(&self.view.layout, OpKind::Read, sectors);
        self.decider.arrived(&self.view, &access, token);
        if self.decider.scheme.properties().migrates_instantly {
            // A migration that is due happens at once, before the read.
            self.work();
        }
        let job = ReadJob {
            token,
            sectors,
            planned: false,
            status: Status::Done,
            parts: Vec::with_capacity(1),
            fragments: Vec::with_capacity(1),
        };
        let task = self.begin_task(Job::Running);
        let (lane, blocks) = (self.lane(sectors), self.view.layout.block.touched(sectors));
        if self.requests.ordering.conflicts(lane, blocks) {
            self.statistics.waited += 1;
            self.requests.ordering.enter_read(task, lane, blocks);
            return self.park(task, Job::Read(job));
        }
        self.run_read(task, job);
    }

    pub(super) fn run_read(&mut self, task: TaskId, mut job: ReadJob<P>) {
        if !job.planned {
            job.planned = true;
            self.plan_read(task, &mut job);
        }
        if self.outstanding(task) > 0 {
            self.put_job(task, Job::Read(job));
            return;
        }
        let done = job.status == Status::Done;
        let payload = if P::CARRIES_DATA && done { job.assemble() } else { P::empty() };
        self.begin_promotions_of(task, job.sectors, done, &payload);
        self.end_request(task, job.token, job.status, payload);
    }

    fn plan_read(&mut self, task: TaskId, job: &mut ReadJob<P>) {
        let size = self.view.layout.block;
        let access = access(&self.view.layout, OpKind::Read, job.sectors);
        self.statistics.read_blocks += access.blocks.count;
        if !self.damage.lost.is_empty() && self.is_lost(job.sectors) {
            job.status = Status::MediaError;
            return;
        }
        let is_log = self.store.appends();
        let mut plan = Plan::default();
        let mut block = access.blocks.first;
        while block.0 < access.blocks.end() {
            let run = match self.view.map.get(block) {
                Some(_) if is_log => self.plan_pieces(task, job, block, &mut plan),
                None => {
                    let from = BlockRun { first: block, ..access.blocks };
                    self.plan_home_run(task, job, &mut plan, &access, from)
                }
                Some((slot, entry)) => {
                    let (touched, _) = size.masks(size.clip(job.sectors, block));
                    if entry.valid.contains(touched) {
                        self.read_planned_home(task, job, &mut plan);
                        self.plan_slot_run(task, job, &access, BlockRun { first: block, count: 1 }, slot)
                    } else {
                        self.plan_joined(task, job, &mut plan, block, slot)
                    }
                }
            };
            block.0 += run;
        }
        self.read_planned_home(task, job, &mut plan);
        self.read_pieces(task, job, plan.pieces);
    }

    /// Plans a read of home. A read that continues the planned read before it is joined to that
    /// read.
    fn plan_home(&mut self, task: TaskId, job: &mut ReadJob<P>, plan: &mut Plan, sectors: SectorRange) {
        match &mut plan.home {
            Some(before) if before.end() == sectors.start => before.len.0 += sectors.len.0,
            _ => {
                self.read_planned_home(task, job, plan);
                plan.home = Some(sectors);
            }
        }
    }

    fn read_planned_home(&mut self, task: TaskId, job: &mut ReadJob<P>, plan: &mut Plan) {
        if let Some(sectors) = plan.home.take() {
            self.read_home(task, job, sectors, 0);
        }
    }

    /// Plans the run from `from.first` on of blocks that have no slot. Returns its length.
    fn plan_home_run(
        &mut self,
        task: TaskId,
        job: &mut ReadJob<P>,
        plan: &mut Plan,
        access: &Access,
        from: BlockRun,
    ) -> u64 {
        let mut end = from.first.0 + 1;
        if self.view.map.is_empty() {
            end = access.blocks.end();
        }
        while end < access.blocks.end() && self.view.map.get(Block(end)).is_none() {
            end += 1;
        }
        let run = BlockRun { first: from.first, count: end - from.first.0 };
        self.decider.scheme.read(&self.view, run, false);
        self.count_by_home(run, false);
        let sectors = self.sectors_of(job.sectors, run);
        self.plan_home(task, job, plan, sectors);
        if self.store.kind().has_slots() {
            match self.decider.promote(&self.view, job.token, access, run) {
                Promotion::Never => {}
                _ if self.slots_refuse() => self.statistics.bypassed(Reason::MEMBER_READ_ONLY, run.count),
                Promotion::Bypass(reason) => self.statistics.bypassed(reason, run.count),
                Promotion::Admit if self.requests.promotions.is_full() || self.requests.ordering.touches(run) => {
                    self.statistics.bypassed(Reason::BUSY, run.count);
                }
                Promotion::Admit => self.requests.promotions.announce(task, run),
            }
        }
        run.count
    }

    /// Plans the run of blocks from `run.first` on whose slots are adjacent and hold all requested
    /// eighths. Returns its length.
    fn plan_slot_run(
        &mut self,
        task: TaskId,
        job: &mut ReadJob<P>,
        access: &Access,
        mut run: BlockRun,
        slot: Slot,
    ) -> u64 {
        let first = self.view.map.in_slot(slot).expect("the map just gave this slot");
        let mut checksums = Vec::new();
        if P::CARRIES_DATA {
            checksums.push(first.checksum);
        }
        while run.end() < access.blocks.end() {
            let next = Slot(slot.0 + run.count as u32);
            let follows = |entry: &Entry| {
                entry.block.0 == run.end() && entry.valid == ValidMask::ALL && entry.dirty == first.dirty
            };
            let Some(entry) = self.view.map.in_slot(next).filter(follows) else { break };
            if P::CARRIES_DATA {
                checksums.push(entry.checksum);
            }
            run.count += 1;
        }
        (0..run.count).for_each(|at| self.decider.scheme.touched(Slot(slot.0 + at as u32)));
        self.count_slot_reads(run);
        let sectors = self.sectors_of(job.sectors, run);
        let part_at = sectors.start.0 - self.view.layout.block.first_sector(run.first);
        let part = self.read_slots(task, job, slot, run, !first.dirty, checksums);
        job.fragments.push(Fragment {
            part,
            part_at,
            request_at: sectors.start.0 - job.sectors.start.0,
            sectors: sectors.len.0,
        });
        run.count
    }

    /// Plans a block whose slot holds only a part of the requested eighths.
    fn plan_joined(&mut self, task: TaskId, job: &mut ReadJob<P>, plan: &mut Plan, block: Block, slot: Slot) -> u64 {
        let size = self.view.layout.block;
        let entry = self.view.map.in_slot(slot).expect("the map just gave this slot");
        let run = BlockRun { first: block, count: 1 };
        let (touched, _) = size.masks(size.clip(job.sectors, block));
        let from_slot = touched.intersection(entry.valid);
        if !from_slot.is_empty() {
            self.decider.scheme.touched(slot);
            let checksums = if P::CARRIES_DATA { vec![entry.checksum] } else { Vec::new() };
            let part = self.read_slots(task, job, slot, run, !entry.dirty, checksums);
            job.take_eighths(size, block, from_slot, part, 0);
        }
        self.plan_rest_at_home(task, job, plan, block, touched.without(entry.valid));
        self.count_joined(run, !from_slot.is_empty(), true);
        1
    }

    /// Plans the eighths of a block that are in none of its slots.
    fn plan_rest_at_home(
        &mut self,
        task: TaskId,
        job: &mut ReadJob<P>,
        plan: &mut Plan,
        block: Block,
        eighths: ValidMask,
    ) {
        let size = self.view.layout.block;
        for run in eighths.runs() {
            let sectors = sectors_of_eighths(size, job.sectors, block, run);
            self.plan_home(task, job, plan, sectors);
        }
    }

    /// Counts a block as served by its sources: slots, home, or both.
    fn count_joined(&mut self, run: BlockRun, from_slots: bool, from_home: bool) {
        if from_slots {
            self.count_slot_reads(run);
        } else {
            self.decider.scheme.read(&self.view, run, false);
        }
        if from_home {
            self.count_by_home(run, false);
        }
    }

    /// Plans a block of which a log has pieces: lists the pieces to read, and reads all other
    /// sectors from home.
    fn plan_pieces(&mut self, task: TaskId, job: &mut ReadJob<P>, block: Block, plan: &mut Plan) -> u64 {
        let size = self.view.layout.block;
        let (touched, _) = size.masks(size.clip(job.sectors, block));
        let before = plan.pieces.len();
        let mut rest = touched;
        for &(slot, entry) in self.view.map.pieces(block).iter() {
            let eighths = touched.intersection(entry.valid);
            if !eighths.is_empty() {
                self.decider.scheme.touched(slot);
                plan.pieces.push(WantedPiece { slot, entry, eighths });
                rest = rest.without(eighths);
            }
        }
        self.plan_rest_at_home(task, job, plan, block, rest);
        self.count_joined(BlockRun { first: block, count: 1 }, plan.pieces.len() > before, !rest.is_empty());
        1
    }

    /// Reads pieces from a log: adjacent pieces by one operation, and pieces in memory without an
    /// operation.
    fn read_pieces(&mut self, task: TaskId, job: &mut ReadJob<P>, mut wanted: Vec<WantedPiece>) {
        // Pieces of whole blocks lie in order of address if they were written together.
        if wanted.iter().any(|piece| piece.entry.valid != ValidMask::ALL) {
            wanted.sort_unstable_by_key(|piece| piece.slot);
        }
        let size = self.view.layout.block;
        let mut first = 0;
        while first < wanted.len() {
            let mut end = first + 1;
            while end < wanted.len() && self.is_beside(wanted[end - 1].slot, wanted[end].slot) {
                end += 1;
            }
            let together = &wanted[first..end];
            let slot = together[0].slot;
            let part = job.parts.len() as u32;
            for piece in together {
                let at = u64::from(piece.slot.0 - slot.0) * size.sectors();
                job.take_eighths(size, piece.entry.block, piece.eighths, part, at);
            }
            let pieces = together.iter().map(|piece| (piece.slot, piece.entry.block, piece.entry.checksum)).collect();
            self.read_together(task, job, pieces);
            first = end;
        }
    }

    /// Returns true if one operation reads two slots of a log. The two slots must be on the drive,
    /// at most a foot and a head apart.
    fn is_beside(&self, slot: Slot, next: Slot) -> bool {
        self.store.kind().are_read_together(slot, next)
    }

    /// Adds a new part for slots of a log. The slots are read from the first to the last, gaps
    /// included; a slot in the log's buffer needs no read.
    fn read_together(&mut self, task: TaskId, job: &mut ReadJob<P>, pieces: Vec<(Slot, Block, u32)>) {
        let (first, last) = (pieces[0].0, pieces[pieces.len() - 1].0);
        let part = job.parts.len() as u32;
        if let Some(piece) = self.store.kind().in_memory(first) {
            let payload = P::CARRIES_DATA.then(|| piece.content.slice(Sectors::ZERO, piece.content.sectors()));
            return job.parts.push(Part { source: Source::Pieces(pieces), payload });
        }
        job.parts.push(Part { source: Source::Pieces(pieces), payload: None });
        let range = self.slot_sectors(first, u64::from(last.0 - first.0) + 1);
        let command = Command { kind: OpKind::Read, range, fua: false };
        self.issue(task, part, self.member_of_slots(), command, P::empty());
    }

    /// Reads pieces again without the gaps between them, after a read across the gaps failed.
    /// Returns false if there were no gaps.
    fn read_apart(&mut self, task: TaskId, job: &mut ReadJob<P>, part: u32) -> bool {
        let Source::Pieces(pieces) = &job.parts[part as usize].source else { return false };
        let follows = |piece: &(Slot, Block, u32), next: &(Slot, Block, u32)| next.0.0 == piece.0.0 + 1;
        let groups: Vec<Vec<(Slot, Block, u32)>> = pieces.chunk_by(follows).map(<[_]>::to_vec).collect();
        if groups.len() < 2 {
            return false;
        }
        let whole = self.view.layout.block.sectors();
        let start = groups[0][0].0;
        for group in groups {
            let from = u64::from(group[0].0.0 - start.0) * whole;
            let end = from + group.len() as u64 * whole;
            let apart = job.parts.len() as u32;
            job.move_fragments(part, from..end, apart);
            self.read_together(task, job, group);
        }
        true
    }

    fn count_slot_reads(&mut self, run: BlockRun) {
        self.decider.scheme.read(&self.view, run, true);
        self.statistics.read_blocks_from_slots += run.count;
        self.mover.slot_was_read(run.first);
        let member = self.member_of_slots();
        self.statistics.read_blocks_by_member[usize::from(member.0)] += run.count;
    }

    /// Reads `sectors` from home. In a mirror, the read goes to a member that is not in `asked`
    /// yet.
    fn read_home(&mut self, task: TaskId, job: &mut ReadJob<P>, sectors: SectorRange, asked: u64) {
        let request_at = sectors.start.0 - job.sectors.start.0;
        let mut done = 0;
        while done < sectors.len.0 {
            let (member, range) = self.home_piece(SectorRange::new(sectors.start.0 + done, sectors.len.0 - done));
            let member = self.copy_to_read(range, asked).unwrap_or(member);
            let part = job.parts.len() as u32;
            job.parts.push(Part { source: Source::Home(asked | 1 << member.0), payload: None });
            job.fragments.push(Fragment { part, part_at: 0, request_at: request_at + done, sectors: range.len.0 });
            self.issue(task, part, member, Command { kind: OpKind::Read, range, fua: false }, P::empty());
            done += range.len.0;
        }
    }

    /// Reads whole slots of a cache. Returns the number of the part.
    fn read_slots(
        &mut self,
        task: TaskId,
        job: &mut ReadJob<P>,
        slot: Slot,
        blocks: BlockRun,
        clean: bool,
        checksums: Vec<u32>,
    ) -> u32 {
        let part = job.parts.len() as u32;
        job.parts.push(Part { source: Source::Slots { clean, first: slot, blocks, checksums }, payload: None });
        let command = Command { kind: OpKind::Read, range: self.slot_sectors(slot, blocks.count), fua: false };
        self.issue(task, part, self.member_of_slots(), command, P::empty());
        part
    }

    pub(super) fn note_read(&mut self, task: TaskId, job: &mut ReadJob<P>, part: u32, status: Status, payload: P) {
        let block_sectors = Sectors(self.view.layout.block.sectors());
        if !matches!(status, Status::Done | Status::Gone) && self.read_apart(task, job, part) {
            // The error may concern only the gaps between the pieces.
            return;
        }
        let this = &mut job.parts[part as usize];
        let sound = status == Status::Done && this.is_sound(&payload, block_sectors);
        if sound {
            this.payload = P::CARRIES_DATA.then_some(payload);
            match &this.source {
                Source::Slots { first, blocks, .. } => {
                    let slots = (first.0..).map(Slot);
                    self.slots_read_well(slots.zip(blocks.blocks()));
                }
                Source::Pieces(pieces) => self.slots_read_well(pieces.iter().map(|&(slot, block, _)| (slot, block))),
                Source::Home(_) => {}
            }
            return;
        }
        match &this.source {
            Source::Slots { first, blocks, checksums, .. } => {
                let held = (first.0..).zip(blocks.blocks()).zip(checksums);
                let held: Vec<_> = held.map(|((slot, block), &checksum)| (Slot(slot), block, checksum)).collect();
                self.slots_read_badly(&held, status, &payload);
            }
            Source::Pieces(pieces) => self.slots_read_badly(pieces, status, &payload),
            Source::Home(_) => {}
        }
        let source = &job.parts[part as usize].source;
        let held = source.held();
        let asked = match source {
            Source::Slots { clean: true, .. } => Some(0),
            &Source::Home(asked) if self.has_copy_besides(asked) => Some(asked),
            Source::Home(_) => None,
            _ if self.are_at_home(held.iter().map(|&(_, block)| block)) => Some(0),
            _ => None,
        };
        if let Some(asked) = asked {
            self.read_home_instead(task, job, part, asked);
        } else if status != Status::Gone && held.iter().any(|&(slot, block)| self.has_left(slot, block)) {
            self.read_newest_instead(task, job, part, &held);
        } else if job.status == Status::Done {
            job.status = if status == Status::Gone { Status::Gone } else { Status::MediaError };
        }
    }

    /// Returns true if `slot` is no longer the only place of content of `block`: home has the
    /// content, or newer content has replaced the content.
    fn has_left(&self, slot: Slot, block: Block) -> bool {
        !self.view.map.in_slot(slot).is_some_and(|entry| entry.block == block && entry.dirty)
    }

    /// Reads a part from the present places of its blocks, each block alone, after `held` could not
    /// be read. Some of the blocks were moved or written again since the read began, and their
    /// content may be sound elsewhere. A slot that still has the only content of its block is read
    /// once more.
    fn read_newest_instead(&mut self, task: TaskId, job: &mut ReadJob<P>, part: u32, held: &[(Slot, Block)]) {
        self.statistics.reads_repaired += 1;
        let size = self.view.layout.block;
        for fragment in job.take_fragments(part) {
            let sectors = SectorRange::new(job.sectors.start.0 + fragment.request_at, fragment.sectors);
            if self.is_lost(sectors) {
                job.status = Status::MediaError;
                return;
            }
            for block in size.touched(sectors).blocks() {
                let (mut rest, _) = size.masks(size.clip(sectors, block));
                for (slot, entry) in self.view.map.pieces(block).to_vec() {
                    let eighths = rest.intersection(entry.valid);
                    let has_failed = !entry.dirty && held.contains(&(slot, block));
                    if !eighths.is_empty() && !has_failed {
                        rest = rest.without(eighths);
                        job.take_eighths(size, block, eighths, job.parts.len() as u32, 0);
                        self.read_slot(task, job, slot, &entry);
                    }
                }
                for run in rest.runs() {
                    self.read_home(task, job, sectors_of_eighths(size, sectors, block, run), 0);
                }
            }
        }
    }

    /// Adds a new part for one slot, of a cache or of a log.
    fn read_slot(&mut self, task: TaskId, job: &mut ReadJob<P>, slot: Slot, entry: &Entry) {
        let checksums = if P::CARRIES_DATA { vec![entry.checksum] } else { Vec::new() };
        if self.store.appends() {
            self.read_together(task, job, vec![(slot, entry.block, entry.checksum)]);
        } else {
            self.read_slots(task, job, slot, BlockRun { first: entry.block, count: 1 }, !entry.dirty, checksums);
        }
    }

    /// Returns true if home has the newest content of all `blocks`. A move may have written the
    /// blocks home since a read of their slots began. A block of which an eighth is lost does not
    /// count, also if other eighths have a clean copy.
    fn are_at_home(&self, mut blocks: impl Iterator<Item = Block>) -> bool {
        let is_clean = |block| self.view.map.get(block).is_none_or(|(_, entry)| !entry.dirty);
        blocks.all(|block| is_clean(block) && self.damage.lost.of(block).is_empty())
    }

    /// Reads a part from home instead, after a copy in a slot was unreadable or wrong. In a mirror,
    /// another member serves the read after one member failed.
    fn read_home_instead(&mut self, task: TaskId, job: &mut ReadJob<P>, part: u32, asked: u64) {
        self.statistics.reads_repaired += 1;
        for fragment in job.take_fragments(part) {
            let start = job.sectors.start.0 + fragment.request_at;
            self.read_home(task, job, SectorRange::new(start, fragment.sectors), asked);
        }
    }

    /// Returns the sectors of `request` that lie in `run`.
    pub(super) fn sectors_of(&self, request: SectorRange, run: BlockRun) -> SectorRange {
        let size = self.view.layout.block;
        let start = request.start.0.max(size.first_sector(run.first));
        let end = request.end().0.min(run.end() * size.sectors());
        SectorRange::new(start, end - start)
    }

    fn is_lost(&self, sectors: SectorRange) -> bool {
        let size = self.view.layout.block;
        let blocks = size.touched(sectors);
        self.damage.lost.between(blocks.first.0, blocks.end()).any(|(block, lost)| {
            let (touched, _) = size.masks(size.clip(sectors, block));
            !lost.intersection(touched).is_empty()
        })
    }
}

impl<P: Payload> Part<P> {
    /// Returns true if content from slots matches its checksums.
    fn is_sound(&self, payload: &P, block_sectors: Sectors) -> bool {
        let is = |(at, checksum): (u64, u32)| {
            payload.slice(Sectors(at * block_sectors.0), block_sectors).checksum() == checksum
        };
        match &self.source {
            _ if !P::CARRIES_DATA => true,
            Source::Home(_) => true,
            Source::Slots { checksums, .. } => (0..).zip(checksums.iter().copied()).all(is),
            Source::Pieces(pieces) => {
                let first = pieces[0].0;
                pieces.iter().all(|&(slot, _, checksum)| is((u64::from(slot.0 - first.0), checksum)))
            }
        }
    }
}

/// Returns the sectors of a request that lie in a run of eighths of `block`.
fn sectors_of_eighths(size: BlockSize, request: SectorRange, block: Block, (first, count): (u32, u32)) -> SectorRange {
    let wanted = size.clip(request, block);
    let first_sector = size.first_sector(block);
    let start = (first_sector + u64::from(first) * size.eighth_sectors()).max(wanted.start.0);
    let end = (first_sector + u64::from(first + count) * size.eighth_sectors()).min(wanted.end().0);
    SectorRange::new(start, end - start)
}

impl<P> ReadJob<P> {
    /// Redirects fragments within `sectors` of `part` to the part `to`, which begins where
    /// `sectors` begin.
    fn move_fragments(&mut self, part: u32, sectors: std::ops::Range<u64>, to: u32) {
        for fragment in self.fragments.iter_mut().filter(|fragment| fragment.part == part) {
            if sectors.contains(&fragment.part_at) {
                (fragment.part, fragment.part_at) = (to, fragment.part_at - sectors.start);
            }
        }
    }

    /// Removes the fragments of a part from the read.
    fn take_fragments(&mut self, part: u32) -> Vec<Fragment> {
        let (taken, kept) = std::mem::take(&mut self.fragments).into_iter().partition(|fragment| fragment.part == part);
        self.fragments = kept;
        taken
    }

    /// Adds fragments for eighths of `block` from a part that has the block from its sector `at`
    /// on.
    fn take_eighths(&mut self, size: BlockSize, block: Block, eighths: ValidMask, part: u32, at: u64) {
        for run in eighths.runs() {
            let sectors = sectors_of_eighths(size, self.sectors, block, run);
            let part_at = at + sectors.start.0 - size.first_sector(block);
            let request_at = sectors.start.0 - self.sectors.start.0;
            match self.fragments.last_mut() {
                Some(last)
                    if last.part == part
                        && last.part_at + last.sectors == part_at
                        && last.request_at + last.sectors == request_at =>
                {
                    last.sectors += sectors.len.0;
                }
                _ => self.fragments.push(Fragment { part, part_at, request_at, sectors: sectors.len.0 }),
            }
        }
    }
}

impl<P: Payload> ReadJob<P> {
    /// Joins the parts in order of address.
    fn assemble(&mut self) -> P {
        self.fragments.sort_by_key(|fragment| fragment.request_at);
        let mut whole = P::empty();
        for fragment in &self.fragments {
            debug_assert_eq!(whole.sectors().0, fragment.request_at, "a read has a hole");
            let part = self.parts[fragment.part as usize].payload.as_ref().expect("every part has arrived");
            whole.join(part.slice(Sectors(fragment.part_at), Sectors(fragment.sectors)));
        }
        assert_eq!(whole.sectors(), self.sectors.len, "a read came out short");
        whole
    }
}
