//! Requests that begin inside the volume's blocks. Such a write changes a part of its first and of
//! its last block, and such a read touches a block more.

use bimetal_core::block::BlockSize;

use super::Finding;
use crate::survey::Survey;
use crate::workload::glance::dominant;

/// Share of requests outside of the grid of blocks from which on a trace counts as misaligned.
const MISALIGNED_SHARE: f64 = 0.5;

pub(super) fn of(survey: &Survey, block: BlockSize) -> Option<Finding> {
    let all: u64 = survey.phases.iter().sum();
    let aligned = survey.phases.first().copied().unwrap_or(0);
    let share = (all - aligned) as f64 / all.max(1) as f64;
    if share < MISALIGNED_SHARE {
        return None;
    }
    let (phase, most) = dominant(&survey.phases);
    let size = block.bytes();
    let text = format!(
        "{:.0} % of the requests of whole blocks of {size} are not aligned with them: a write leaves two blocks written in part.",
        share * 100.0
    );
    let remedy = if most >= MISALIGNED_SHARE && phase != 0 {
        format!("--align {phase}: {:.0} % begin {phase} sectors behind the border of a block", most * 100.0)
    } else {
        "no grid fits most of them".to_owned()
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
        let mixed = found([10, 15, 15, 15, 15, 10, 10, 10]).unwrap();
        assert_eq!(mixed.remedy.as_deref(), Some("no grid fits most of them"));
    }
}
