//! Caches that can hold everything that the trace accesses: no block is ever evicted, so the
//! figures do not depend on replacement.

use bimetal_core::block::BlockSize;
use bimetal_core::layout::Role;
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::schemes;
use bimetal_core::units::Bytes;

use super::{Finding, size};
use crate::results::Run;
use crate::setup::Sizing;
use crate::survey::Survey;

/// Returns true if the SSD of a run is a cache.
pub(super) fn has_cache(run: &Run) -> bool {
    schemes::find(&run.scheme).is_some_and(is_cache)
}

/// Returns true if the SSD of a scheme is a cache.
pub(crate) fn is_cache(scheme: &SchemeInfo) -> bool {
    scheme.members.contains(&(Role::Ssd, Holds::Cache))
}

pub(super) fn of(survey: &Survey, runs: &[Run], block: BlockSize) -> Option<Finding> {
    let touched = survey.footprint_blocks * block.bytes().0;
    let holds = |run: &&Run| {
        has_cache(run) && run.sizing != Sizing::Share && run.ssd_bytes.is_some_and(|bytes| bytes >= touched)
    };
    let all: Vec<&str> = runs.iter().filter(holds).map(|run| run.label.as_str()).collect();
    if all.is_empty() || touched == 0 {
        return None;
    }
    let tenth = (touched / 10).next_multiple_of(1 << 20);
    let text = format!(
        "The SSD holds all that the trace accesses ({}) under {}: nothing is ever evicted.",
        size(touched),
        all.join(", ")
    );
    let remedy = match runs.iter().any(|run| run.sizing == Sizing::Share) {
        true => "the runs at 10 % of it show how the schemes use a smaller cache".to_owned(),
        false => format!("--ssd-size {}, a tenth of it", Bytes(tenth)),
    };
    Some(Finding::new("holds-everything", "note", text, &remedy, None))
}

/// Returns the finding about a chosen run: whoever buys the cache may fill it.
pub(super) fn of_choice(survey: &Survey, run: &Run, block: BlockSize) -> Option<Finding> {
    let found = of(survey, std::slice::from_ref(run), block)?;
    let text = format!("{} A cache that is full evicts, and may be much slower.", found.text);
    let remedy = "a trace that fills it; `bimetal compare` shows the schemes with a cache of a tenth of the trace";
    Some(Finding { severity: "warning".to_owned(), text, remedy: Some(remedy.to_owned()), ..found })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn only_caches_hold_everything() {
        let survey = Survey { footprint_blocks: 2560, ..Survey::default() };
        let runs = [run("ssd-only", 1 << 30), run("smart-response", 10 << 20), run("smq", 9 << 20)];
        let found = of(&survey, &runs, BlockSize::default()).unwrap();
        assert_eq!(
            found.text,
            "The SSD holds all that the trace accesses (10.0 MiB) under smart-response: nothing is ever evicted."
        );
        assert_eq!(found.remedy.as_deref(), Some("--ssd-size 1MiB, a tenth of it"));
        assert_eq!(of(&survey, &runs[..1], BlockSize::default()), None);
        // A plan bought a cache that the trace had never filled.
        let chosen = of_choice(&survey, &runs[1], BlockSize::default()).unwrap();
        assert!(
            chosen.severity == "warning"
                && chosen.text.ends_with("A cache that is full evicts, and may be much slower.")
        );
        assert_eq!(of_choice(&survey, &runs[2], BlockSize::default()), None);
        let share = Run { sizing: Sizing::Share, ..runs[1].clone() };
        assert_eq!(
            of(&survey, std::slice::from_ref(&share), BlockSize::default()),
            None,
            "a share is no drive on sale"
        );
        let both = of(&survey, &[runs[1].clone(), share], BlockSize::default()).unwrap();
        assert!(both.remedy.unwrap().starts_with("the runs at 10 %"));
    }
}
