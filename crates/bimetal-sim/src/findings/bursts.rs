//! SSDs smaller than a burst of writes: the rest of the burst goes on at the speed of the HDD.

use bimetal_core::layout::Role;
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::Bytes;

use super::{Finding, size};
use crate::results::Run;
use crate::survey::{BURST, Survey};

/// Returns true if the SSD of a run holds writes for the HDD.
fn has_buffer(run: &Run) -> bool {
    let scheme = schemes::find(&run.scheme);
    scheme.is_some_and(|scheme| {
        [Holds::Cache, Holds::Log].iter().any(|&holds| scheme.members.contains(&(Role::Ssd, holds)))
    })
}

pub(super) fn of(survey: &Survey, runs: &[Run]) -> Option<Finding> {
    let burst = survey.burst_bytes.0;
    let is_small = |run: &&Run| has_buffer(run) && run.ssd_bytes.is_some_and(|bytes| bytes < burst);
    let small: Vec<&Run> = runs.iter().filter(is_small).collect();
    let least = small.iter().filter_map(|run| run.ssd_bytes).min()?;
    let names: Vec<&str> = small.iter().map(|run| run.label.as_str()).collect();
    let text = format!(
        "A burst of writes is larger than the SSD: {} came within {:.0} s, and the SSD has {} or more under {}. The rest \
         of a burst is written at the speed of the HDD.",
        size(burst),
        BURST.as_seconds_f64(),
        size(least),
        names.join(", ")
    );
    let enough = Bytes(burst.next_multiple_of(1 << 20));
    Some(Finding::new("cache-smaller-than-bursts", "warning", text, &format!("--ssd-size {enough} or more"), None))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn caches_and_logs_smaller_than_a_burst_are_named() {
        let survey = Survey { burst_bytes: Bytes((10 << 20) - 5), ..Survey::default() };
        let runs = [run("ssd-only", 1 << 20), run("bcache", 9 << 20), run("smq", 10 << 20), run("writeboost", 5 << 20)];
        let found = of(&survey, &runs).expect("two are smaller");
        assert!(found.text.contains("10.0 MiB came within 30 s"), "{}", found.text);
        assert!(found.text.contains("the SSD has 5.0 MiB or more under bcache, writeboost."), "{}", found.text);
        assert_eq!(found.remedy.as_deref(), Some("--ssd-size 10MiB or more"));
        assert_eq!(of(&survey, &[runs[0].clone(), runs[2].clone()]), None);
    }
}
