//! The plan of moves: the files that move to the SSD, the files that leave it to make room, and
//! their order.
//!
//! Combo Drive's section 3.1 places files "contiguously on either the SSD exclusively, or else on
//! the HDD exclusively", and splits other files "into smaller pieces that fit contiguously into
//! free space". The plan follows the paper: a move takes the smallest free run that fits, or
//! otherwise the largest runs.
//!
//! Our choices. Only the blocks on the wrong drive move. A file leaves the SSD only if other files
//! need its room. Moves come in rounds: files leave the SSD first, then files move in. A round ends
//! after `ROUND_BLOCKS`, so that little room on the HDD suffices.

use std::collections::VecDeque;

use crate::Side;
use crate::runs::{Run, Runs, total};

/// Largest number of blocks that move to the SSD in one round: 16 MiB. A round is small, because
/// its files may find no place on the SSD after other files have left the SSD.
const ROUND_BLOCKS: u64 = 1 << 12;

/// Files and free space, as the plan finds them.
#[derive(Debug)]
pub struct Situation<'a> {
    /// First block of the HDD.
    pub boundary: u64,
    /// Blocks of each file.
    pub files: &'a [Vec<Run>],
    /// Files that belong on the SSD, the most wanted first.
    pub wanted: &'a [usize],
    /// Files that may leave the SSD, the first to leave first.
    pub others: &'a [usize],
    /// Free runs.
    pub free: Runs,
    /// Number of blocks of the SSD, and of the HDD, that must stay free.
    pub spare: [u64; 2],
}

/// Move of the part of a file that lies on the wrong drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Number of the file.
    pub file: usize,
    /// Drive to which the file moves.
    pub to: Side,
    /// Number of blocks that move.
    pub blocks: u64,
    /// Free runs that the blocks move to.
    pub targets: Vec<Run>,
}

/// Moves in their order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Moves, in the order in which they are made.
    pub moves: Vec<Move>,
    /// Files that belong on the SSD, but for which the SSD has no room.
    pub no_room: Vec<usize>,
}

/// State of a plan that is being made.
struct Planner<'a> {
    situation: &'a Situation<'a>,
    ssd: Runs,
    hdd: Runs,
    /// Files that may still leave the SSD, with their blocks on the SSD.
    others: VecDeque<(usize, u64)>,
    /// Number of blocks of `others` on the SSD.
    others_blocks: u64,
    outs: Vec<Move>,
    ins: Vec<Move>,
    /// Number of blocks of `ins`.
    ins_blocks: u64,
    plan: Plan,
}

/// Makes the plan for a situation.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let inside = |&file: &usize| (file, total(&on(&situation.files[file], Side::Ssd, situation.boundary)));
    let others: VecDeque<(usize, u64)> = situation.others.iter().map(inside).filter(|&(_, len)| len > 0).collect();
    let side = |side| situation.free.iter().filter_map(|run| run.on(side, situation.boundary)).collect::<Runs>();
    let mut planner = Planner {
        situation,
        ssd: side(Side::Ssd),
        hdd: side(Side::Hdd),
        others_blocks: others.iter().map(|&(_, len)| len).sum(),
        others,
        outs: Vec::new(),
        ins: Vec::new(),
        ins_blocks: 0,
        plan: Plan::default(),
    };
    for &file in situation.wanted {
        planner.place(file);
    }
    planner.end_round();
    planner.plan
}

/// Returns the parts of `runs` on a drive.
fn on(runs: &[Run], side: Side, boundary: u64) -> Vec<Run> {
    runs.iter().filter_map(|run| run.on(side, boundary)).collect()
}

impl Planner<'_> {
    /// Plans the move of a file to the SSD, and the files that must leave the SSD for this move.
    fn place(&mut self, file: usize) {
        let len = total(&on(&self.situation.files[file], Side::Hdd, self.situation.boundary));
        if len == 0 {
            return;
        }
        let mut leaving = self.leaving_for(len);
        if leaving.is_none() && self.ins_blocks > 0 {
            // The files that moved in leave free room on the HDD.
            self.end_round();
            leaving = self.leaving_for(len);
        }
        let Some(leaving) = leaving else { return self.plan.no_room.push(file) };
        for at in leaving.into_iter().rev() {
            if let Some((other, blocks)) = self.others.remove(at) {
                self.move_out(other, blocks);
            }
        }
        match self.ssd.take(len) {
            Some(targets) => self.ins.push(Move { file, to: Side::Ssd, blocks: len, targets }),
            None => return self.plan.no_room.push(file),
        }
        self.ins_blocks += len;
        if self.ins_blocks >= ROUND_BLOCKS {
            self.end_round();
        }
    }

    /// Returns the places in `others` of files that leave the SSD so that `len` blocks fit on the
    /// SSD, in ascending order; `None` if not enough files can leave.
    fn leaving_for(&self, len: u64) -> Option<Vec<usize>> {
        let [spare_ssd, spare_hdd] = self.situation.spare;
        let mut missing = (len + spare_ssd).saturating_sub(self.ssd.total());
        if missing > self.others_blocks {
            return None;
        }
        let mut room = self.hdd.total().saturating_sub(spare_hdd);
        let mut leaving = Vec::new();
        for (at, &(_, blocks)) in self.others.iter().enumerate() {
            if missing == 0 {
                break;
            }
            if blocks <= room {
                leaving.push(at);
                room -= blocks;
                missing = missing.saturating_sub(blocks);
            }
        }
        (missing == 0).then_some(leaving)
    }

    fn move_out(&mut self, file: usize, blocks: u64) {
        self.others_blocks -= blocks;
        if let Some(targets) = self.hdd.take(blocks) {
            self.outs.push(Move { file, to: Side::Hdd, blocks, targets });
            let left = on(&self.situation.files[file], Side::Ssd, self.situation.boundary);
            left.into_iter().for_each(|run| self.ssd.insert(run));
        }
    }

    /// Puts the moves of the round in order, and frees the blocks that its files leave on the HDD.
    fn end_round(&mut self) {
        for moved in &self.ins {
            let left = on(&self.situation.files[moved.file], Side::Hdd, self.situation.boundary);
            left.into_iter().for_each(|run| self.hdd.insert(run));
        }
        self.plan.moves.append(&mut self.outs);
        self.plan.moves.append(&mut self.ins);
        self.ins_blocks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 256;

    fn runs(list: &[(u64, u64)]) -> Vec<Run> {
        list.iter().map(|&(start, len)| Run::new(start, len)).collect()
    }

    fn planned(files: &[Vec<Run>], wanted: &[usize], others: &[usize], free: &[(u64, u64)]) -> Plan {
        let free = runs(free).into_iter().collect();
        plan(&Situation { boundary: 100, files, wanted, others, free, spare: [0, 0] })
    }

    #[test]
    fn file_moves_in_whole_if_a_free_run_fits() {
        let files = [runs(&[(150, 10)])];
        let plan = planned(&files, &[0], &[], &[(5, 4), (20, 30), (60, 12)]);
        let targets = runs(&[(60, 10)]);
        assert_eq!(plan.moves, [Move { file: 0, to: Side::Ssd, blocks: 10, targets }]);
    }

    #[test]
    fn files_leave_the_ssd_only_as_far_as_needed() {
        let files = [runs(&[(150, 10)]), runs(&[(0, 6)]), runs(&[(10, 6)]), runs(&[(20, 6)])];
        let plan = planned(&files, &[0], &[3, 1, 2], &[(200, 40)]);
        let moved: Vec<(usize, Side)> = plan.moves.iter().map(|moved| (moved.file, moved.to)).collect();
        assert_eq!(moved, [(1, Side::Hdd), (3, Side::Hdd), (0, Side::Ssd)]);
        assert!(plan.no_room.is_empty());
    }

    /// Regression: a file for which no room could be made still caused other files to leave the
    /// SSD.
    #[test]
    fn file_without_room_sends_no_other_file_away() {
        let files = [runs(&[(150, 50)]), runs(&[(0, 6)]), runs(&[(101, 6)])];
        let plan = planned(&files, &[0, 2], &[1], &[(50, 4), (200, 40)]);
        assert_eq!(plan.no_room, [0]);
        let moved: Vec<usize> = plan.moves.iter().map(|moved| moved.file).collect();
        assert_eq!(moved, [1, 2]);
    }

    #[test]
    fn round_ends_where_the_hdd_has_no_room_left() {
        // The HDD has 10 free blocks. Only after file 0 has left its place there, file 3 fits.
        let files = [runs(&[(110, 10)]), runs(&[(120, 10)]), runs(&[(0, 10)]), runs(&[(10, 10)])];
        let plan = planned(&files, &[0, 1], &[2, 3], &[(200, 10)]);
        let moved: Vec<(usize, Side)> = plan.moves.iter().map(|moved| (moved.file, moved.to)).collect();
        assert_eq!(moved, [(2, Side::Hdd), (0, Side::Ssd), (3, Side::Hdd), (1, Side::Ssd)]);
    }

    #[test]
    fn mixed_file_moves_only_the_part_on_the_wrong_drive() {
        let files = [runs(&[(0, 5), (98, 6)])];
        let plan = planned(&files, &[0], &[], &[(50, 20)]);
        assert_eq!((plan.moves[0].blocks, total(&plan.moves[0].targets)), (4, 4));
    }

    /// Owner of each block: `None` if free, a file, or `FOREIGN`.
    type Shadow = Vec<Option<usize>>;
    const FOREIGN: usize = usize::MAX;

    /// Draws an owner for each run of blocks, and sorts the runs by owner.
    fn drawn(parts: &[(u64, usize)], count: usize) -> (Shadow, Vec<Vec<Run>>, Vec<Run>) {
        let mut shadow = vec![Some(FOREIGN); BLOCKS as usize];
        let (mut files, mut free) = (vec![Vec::new(); count], Vec::new());
        let mut start = 0;
        for &(len, owner) in parts {
            let run = Run::new(start, len.min(BLOCKS - start));
            if run.len == 0 {
                break;
            }
            start = run.end();
            let owner = match owner % (count + 3) {
                file if file < count => Some(file),
                other if other == count => Some(FOREIGN),
                _ => None,
            };
            (run.start..run.end()).for_each(|block| shadow[block as usize] = owner);
            match owner {
                Some(FOREIGN) => {}
                Some(file) => files[file].push(run),
                None => free.push(run),
            }
        }
        (shadow, files, free)
    }

    proptest! {
        /// Each move of a plan is made in a model of the device. The move's targets must be free
        /// and on the right drive, and the blocks that it leaves become free.
        #[test]
        fn plan_fits_a_shadow_of_the_device(
            parts in prop::collection::vec((1u64..24, 0usize..40), 8..60),
            boundary in 20u64..200, wanted in prop::collection::vec(any::<bool>(), 8), spare in (0u64..20, 0u64..20),
        ) {
            let (mut shadow, files, free) = drawn(&parts, wanted.len());
            let free_at_first = free.iter().map(|run| run.len).sum::<u64>();
            let (want, others): (Vec<usize>, Vec<usize>) = (0..wanted.len()).partition(|&file| wanted[file]);
            let spare = [spare.0, spare.1];
            let plan = plan(&Situation { boundary, files: &files, wanted: &want, others: &others, free: free.into_iter().collect(), spare });
            let side_of = |block: usize| if (block as u64) < boundary { Side::Ssd } else { Side::Hdd };
            let mut moved_once = vec![0; files.len()];
            let (mut in_blocks, mut out_blocks) = (0, 0);
            for moved in &plan.moves {
                moved_once[moved.file] += 1;
                prop_assert_eq!(wanted[moved.file], moved.to == Side::Ssd);
                prop_assert_eq!(total(&moved.targets), moved.blocks);
                let left: Vec<usize> = (0..shadow.len())
                    .filter(|&block| shadow[block] == Some(moved.file) && side_of(block) != moved.to).collect();
                prop_assert_eq!(left.len() as u64, moved.blocks, "all of the wrong drive's part moves");
                for block in moved.targets.iter().flat_map(|run| run.start..run.end()) {
                    prop_assert_eq!(shadow[block as usize], None, "block {} is not free", block);
                    prop_assert_eq!(side_of(block as usize), moved.to);
                    shadow[block as usize] = Some(moved.file);
                }
                left.into_iter().for_each(|block| shadow[block] = None);
                *(if moved.to == Side::Ssd { &mut in_blocks } else { &mut out_blocks }) += moved.blocks;
                let hdd_free = (boundary as usize..shadow.len()).filter(|&block| shadow[block].is_none()).count() as u64;
                prop_assert!(moved.to == Side::Ssd || hdd_free >= spare[1]);
            }
            prop_assert!(moved_once.iter().all(|&times| times <= 1));
            prop_assert_eq!(shadow.iter().filter(|owner| owner.is_none()).count() as u64, free_at_first);
            let ssd_free = (0..boundary as usize).filter(|&block| shadow[block].is_none()).count() as u64;
            prop_assert!(in_blocks == 0 || ssd_free >= spare[0]);
            prop_assert!(out_blocks == 0 || in_blocks > 0, "files left, and none moved in");
            for &file in &want {
                let outside = files[file].iter().filter_map(|run| run.on(Side::Hdd, boundary)).count() > 0;
                prop_assert_eq!(outside, moved_once[file] == 1 || plan.no_room.contains(&file));
            }
        }
    }
}
