//! Requests that begin inside the volume's blocks. A misaligned write changes a part of its first
//! and of its last block, and a misaligned read touches a block more.

use bimetal_core::block::BlockSize;
use bimetal_core::units::counted;

use super::Finding;
use crate::survey::Survey;
use crate::workload::glance::dominant;

/// Share of requests that do not begin at the start of a block from which on a trace counts as
/// misaligned.
const MISALIGNED_SHARE: f64 = 0.5;

/// Number of sectors in a physical sector of 4096 bytes.
const PHYSICAL_SECTORS: usize = 8;

pub(super) fn of(survey: &Survey, block: BlockSize) -> Option<Finding> {
    let all: u64 = survey.phases.iter().sum();
    let aligned = survey.phases.first().copied().unwrap_or(0);
    let share = (all - aligned) as f64 / all.max(1) as f64;
    if share < MISALIGNED_SHARE {
        return None;
    }
    let (phase, most) = dominant(&survey.phases);
    let size = block.bytes();
    let inside: u64 = survey
        .phases
        .iter()
        .enumerate()
        .filter(|(phase, _)| phase % PHYSICAL_SECTORS != 0)
        .map(|(_, count)| count)
        .sum();
    let turn = match inside as f64 / all.max(1) as f64 >= MISALIGNED_SHARE {
        true => {
            " A disk with physical sectors of 4KiB (512e) reads before such a write, and writes a turn of its platters later (8.3 ms at 7200 rpm)."
        }
        false => "",
    };
    let text = format!(
        "{:.0} % of the requests of whole blocks of {size} are not aligned with the blocks: each such write leaves \
         two blocks written in part.{turn}",
        share * 100.0
    );
    let remedy = if most >= MISALIGNED_SHARE && phase != 0 {
        // The addresses may have been moved already: `--align` counts from sector 0 of the trace.
        let sector = (survey.grid + phase) % block.sectors();
        let inside = counted(phase, "sector");
        format!("--align {sector}: {:.0} % begin {inside} after the start of a block", most * 100.0)
    } else {
        "no grid of blocks fits most of them".to_owned()
    };
    Some(Finding::new("misaligned", "warning", text, &remedy, Some(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(phases: [u64; 8]) -> Option<Finding> {
        of(&Survey { phases: phases.to_vec(), ..Survey::default() }, BlockSize::default())
    }

    #[test]
    fn dominant_phase_is_the_remedy() {
        assert_eq!(found([60, 0, 0, 0, 0, 0, 0, 40]), None);
        assert_eq!(found([0; 8]), None);
        let old = found([10, 0, 0, 0, 0, 0, 5, 85]).unwrap();
        assert!(old.remedy.as_ref().unwrap().starts_with("--align 7: 85 % begin 7 sectors"), "{old:?}");
        assert!((old.share, &*old.id) == (Some(0.9), "misaligned") && old.text.starts_with("90 % of"), "{old:?}");
        assert!(
            old.text.ends_with(
                "(512e) reads before such a write, and writes a turn of its platters later (8.3 ms at 7200 rpm)."
            ),
            "{old:?}"
        );
        let mixed = found([10, 15, 15, 15, 15, 10, 10, 10]).unwrap();
        assert_eq!(mixed.remedy.as_deref(), Some("no grid of blocks fits most of them"));
    }

    /// Regression: an aligned trace that was played with `--align 1` was told to use `--align 7`,
    /// and with `--align 7` to use `--align 1`.
    #[test]
    fn remedy_counts_from_the_first_sector_of_the_trace() {
        let remedy = |grid, phase: usize| {
            let mut phases = vec![0; 8];
            phases[phase] = 9;
            of(&Survey { phases, grid, ..Survey::default() }, BlockSize::default()).unwrap().remedy.unwrap()
        };
        assert_eq!(remedy(1, 7), "--align 0: 100 % begin 7 sectors after the start of a block");
        assert_eq!(remedy(9, 6), "--align 7: 100 % begin 6 sectors after the start of a block");
        assert_eq!(remedy(0, 1), "--align 1: 100 % begin 1 sector after the start of a block");
    }

    /// Requests that begin in the middle of blocks of 8 KiB still begin on physical sectors of
    /// 4 KiB.
    #[test]
    fn whole_physical_sectors_cost_no_turn() {
        let mut phases = vec![0; 16];
        phases[8] = 9;
        let survey = Survey { phases, ..Survey::default() };
        let half = of(&survey, BlockSize::new(bimetal_core::units::Bytes::from_kib(8)).unwrap()).unwrap();
        assert!(half.text.ends_with("written in part."), "{half:?}");
    }
}
