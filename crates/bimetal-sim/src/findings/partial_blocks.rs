//! Requests that are not whole blocks long. A write of a part of a block leaves the block written
//! in part, and a cache that reads a part of a block may fetch the whole block.

use bimetal_core::block::BlockSize;

use super::Finding;
use crate::survey::Survey;

/// Number of sectors in a physical sector of 4096 bytes.
const PHYSICAL_SECTORS: u64 = 8;

/// Share of the reads and writes from which on requests of parts of blocks are told.
const PARTIAL_SHARE: f64 = 0.25;

pub(super) fn of(survey: &Survey, block: BlockSize) -> Option<Finding> {
    let all = survey.reads + survey.writes;
    let whole: u64 = survey.phases.iter().sum();
    let share = all.saturating_sub(whole) as f64 / all.max(1) as f64;
    if share < PARTIAL_SHARE {
        return None;
    }
    let is_physical_sector = block.sectors() == PHYSICAL_SECTORS;
    let turn = match is_physical_sector && survey.writes > 0 {
        true => {
            " A disk with physical sectors of 4KiB (512e) reads before such a write, and writes a turn of its platters later."
        }
        false => "",
    };
    let text = format!(
        "{:.0} % of the reads and writes are not a whole number of blocks of {} long: a write of a part of a block \
         leaves the block in part on the SSD and in part on the HDD.{turn}",
        share * 100.0,
        block.bytes()
    );
    let remedy = match is_physical_sector {
        true => "a disk and a file system with the sectors of the trace, or a trace of the system that will be used",
        false => "--block with the size of most requests",
    };
    Some(Finding::new("partial-blocks", "note", text, remedy, Some(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_part_of_a_block_are_told_from_a_quarter_on() {
        let found = |whole, reads, writes| {
            let survey = Survey { phases: vec![whole, 0, 0, 0, 0, 0, 0, 0], reads, writes, ..Survey::default() };
            of(&survey, BlockSize::default())
        };
        let half = found(50, 30, 70).expect("half of them are parts of blocks");
        assert!(
            half.text.starts_with("50 % of the reads and writes are not a whole number of blocks of 4KiB"),
            "{half:?}"
        );
        assert_eq!((half.id.as_str(), half.share), ("partial-blocks", Some(0.5)));
        assert!(
            half.text.contains("512e") && !found(50, 100, 0).expect("half").text.contains("512e"),
            "nothing is written"
        );
        assert!(found(75, 30, 70).is_some());
        assert_eq!(found(76, 30, 70), None);
        assert_eq!(found(0, 0, 0), None);
    }
}
