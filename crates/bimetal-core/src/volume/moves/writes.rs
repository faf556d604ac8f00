//! Writes of a move: the blocks of a batch, in order of address.

use super::{MoveJob, Moving, OPERATION_BLOCKS, Transfer};
use crate::block::{Block, ValidMask};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};
use crate::volume::Volume;

impl<P: Payload> MoveJob<P> {
    /// Plans the batch's writes in order of address. Adjacent whole blocks are joined; parts
    /// of blocks are written by their valid eighths. The adjacent pieces of a block are written
    /// together.
    pub(super) fn plan_writes(&mut self, volume: &Volume<P>) {
        self.begun_before_writing = volume.operations.begun();
        let blocks_max = OPERATION_BLOCKS * volume.view.layout.block.sectors();
        let mut transfers: Vec<Transfer> = Vec::new();
        let mut first = 0;
        for pieces in self.batch.chunk_by(|piece, next| piece.entry.block == next.entry.block) {
            let count = pieces.len() as u32;
            let goes = pieces.iter().filter(|piece| piece.goes_home());
            let valid = goes.fold(ValidMask::NONE, |valid, piece| valid.union(piece.entry.valid));
            if valid == ValidMask::ALL {
                let (member, range) = volume.home_piece(volume.whole_block(pieces[0].entry.block));
                match transfers.last_mut() {
                    Some(last)
                        if last.valid == ValidMask::ALL
                            && last.member == member
                            && last.range.end() == range.start
                            && last.range.len.0 < blocks_max =>
                    {
                        last.range.len += range.len;
                        last.count += count;
                    }
                    _ => transfers.push(Transfer { member, range, first, count, valid }),
                }
            } else {
                transfers.extend(part_transfers(volume, pieces[0].entry.block, valid, (first, count)));
            }
            first += count;
        }
        self.todo = transfers.into();
        self.count_blocks();
    }

    /// Returns the payload of a write home: the eighths `valid` of each block, from the pieces that
    /// have these eighths.
    pub(super) fn content_home(&self, volume: &Volume<P>, first: u32, count: u32, valid: ValidMask) -> P {
        let eighth = volume.view.layout.block.eighth_sectors();
        let mut payload = P::empty();
        let pieces = &self.batch[first as usize..(first + count) as usize];
        for pieces in pieces.chunk_by(|piece, next| piece.entry.block == next.entry.block) {
            let runs = |piece: &'_ Moving<P>| piece.entry.valid.intersection(valid).runs().collect::<Vec<_>>();
            // If another part of the block failed, all its pieces stay; this planned write still
            // carries its content.
            let goes = pieces.iter().filter(|piece| piece.entry.dirty && piece.content.is_some());
            let mut runs: Vec<_> =
                goes.flat_map(|piece| runs(piece).into_iter().map(move |run| (run, piece))).collect();
            runs.sort_by_key(|((from, _), _)| *from);
            for ((from, eighths), piece) in runs {
                let Some(content) = &piece.content else { continue };
                payload.join(content.slice(Sectors(u64::from(from) * eighth), Sectors(u64::from(eighths) * eighth)));
            }
        }
        payload
    }
}

/// Returns the writes home of the eighths `valid` of a block. `first` is the block's first piece in
/// the batch, `pieces` the number of its pieces.
fn part_transfers<P: Payload>(
    volume: &Volume<P>,
    block: Block,
    valid: ValidMask,
    (first, pieces): (u32, u32),
) -> impl Iterator<Item = Transfer> {
    let eighth = volume.view.layout.block.eighth_sectors();
    let (member, whole) = volume.home_piece(volume.whole_block(block));
    valid.runs().map(move |(from, count)| Transfer {
        member,
        range: SectorRange::new(whole.start.0 + u64::from(from) * eighth, u64::from(count) * eighth),
        first,
        count: pieces,
        valid: ValidMask((((1u16 << count) - 1) << from) as u8),
    })
}
