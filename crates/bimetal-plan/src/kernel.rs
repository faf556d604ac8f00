//! Commands that set up the function of Linux that is most similar to a scheme. The commands of
//! Linux do not translate a plan exactly: Linux uses its own policies. The plan's predictions hold
//! for Bimetal only.

use bimetal_core::scheme::{CacheMode, LinuxCounterpart};
use bimetal_core::settings::Settings;

use crate::budget::Budget;
use crate::evaluate::Outcome;
use crate::grid::Candidate;
use crate::search::Tried;

/// Returns the option of `tried` that models the similar function of Linux on the drives of
/// `candidate`. `None` if this option is `candidate` itself, or keeps all `budgets`.
pub(crate) fn refuted_by<'t>(candidate: &Candidate, tried: &'t [Tried], budgets: &[Budget]) -> Option<&'t Tried> {
    let yardstick = match counterpart(candidate)? {
        LinuxCounterpart::DmCache(_) => "smq",
        LinuxCounterpart::Bcache(_) => "bcache",
        LinuxCounterpart::DmWritecache => return None,
    };
    let is_model = |tried: &&Tried| {
        tried.candidate.scheme.name == yardstick
            && tried.candidate.variant == 0
            && tried.candidate.drives == candidate.drives
    };
    let model = tried.iter().find(is_model).filter(|_| candidate.scheme.name != yardstick)?;
    // An option that was left out because another is faster may keep the budgets.
    let breaks = match &model.outcome {
        Some(Outcome::Done(figures)) => budgets.iter().any(|budget| figures.breaks(budget).is_some()),
        Some(Outcome::Stopped { broken, .. }) => budgets.iter().any(|budget| budget.text == *broken),
        Some(Outcome::Impossible(_)) | None => false,
    };
    breaks.then_some(model)
}

fn counterpart(candidate: &Candidate) -> Option<LinuxCounterpart> {
    let given = candidate.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let settings = Settings::new(candidate.scheme.name, candidate.scheme.parameters, given);
    settings.ok().and_then(|settings| (candidate.scheme.linux_counterpart)(&settings))
}

/// Returns the commands, with SSD and HDD for the paths of the drives; no commands if Linux has no
/// similar function.
pub fn commands(candidate: &Candidate) -> Vec<String> {
    match counterpart(candidate) {
        Some(LinuxCounterpart::DmCache(mode)) => lvm("cache", &format!(" --cachemode {}", word(mode))),
        Some(LinuxCounterpart::DmWritecache) => lvm("writecache", ""),
        Some(LinuxCounterpart::Bcache(mode)) => bcache(word(mode)),
        None => Vec::new(),
    }
}

/// Returns the name of the mode in lvmcache and bcache.
fn word(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::WriteThrough => "writethrough",
        CacheMode::WriteBack => "writeback",
    }
}

fn lvm(kind: &str, options: &str) -> Vec<String> {
    vec![
        "vgcreate hybrid HDD SSD".to_owned(),
        "lvcreate -n data -l 100%PVS hybrid HDD".to_owned(),
        "lvcreate -n fast -l 100%PVS hybrid SSD".to_owned(),
        format!("lvconvert --yes --type {kind} --cachevol fast{options} hybrid/data"),
    ]
}

fn bcache(mode: &str) -> Vec<String> {
    vec!["make-bcache -C SSD -B HDD".to_owned(), format!("echo {mode} > /sys/block/bcache0/bcache/cache_mode")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::Figures;
    use bimetal_core::schemes;
    use serde_json::json;

    /// A plan that had rejected bcache named make-bcache as similar to its best option.
    #[test]
    fn function_of_linux_that_breaks_a_budget_is_known() {
        let budgets = [Budget::parse("p99<20ms").unwrap()];
        let option = |scheme: &str, p99_ms: f64| {
            let (scheme, drives, settings) = (schemes::find(scheme).unwrap(), Vec::new(), Vec::new());
            let candidate = Candidate { index: 0, variant: 0, scheme, drives, settings, cost_usd: 0.0 };
            let run = json!({ "response_time_ms": { "all": { "p99": p99_ms } } });
            let outcome = Some(Outcome::Done(Box::new(Figures { run, ..Figures::default() })));
            Tried { candidate, outcome, reasons: Vec::new(), judged: true }
        };
        let best = option("smart-response", 10.0);
        let refuted = |model: Tried| refuted_by(&best.candidate, &[model], &budgets).is_some();
        assert!(refuted(option("smq", 30.0)));
        assert!(!refuted(option("smq", 15.0)), "it keeps the budget");
        assert!(!refuted(option("bcache", 30.0)), "smart-response is similar to dm-cache");
        let mut slower = option("smq", 30.0);
        let stopped = |broken: &str| Some(Outcome::Stopped { finished: 1, broken: broken.to_owned() });
        slower.outcome = stopped("p99<=9ms");
        assert!(!refuted(slower.clone()), "slower than another option, and no budget is broken");
        slower.outcome = stopped("p99<20ms");
        assert!(refuted(slower));
    }

    #[test]
    fn the_cache_mode_follows_the_settings_of_the_scheme() {
        let commands = |scheme: &str, settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let scheme = schemes::find(scheme).unwrap();
            commands(&Candidate { index: 0, variant: 0, scheme, drives: Vec::new(), settings, cost_usd: 0.0 })
        };
        let mode = |settings: &[(&str, &str)]| commands("smart-response", settings).pop().unwrap();
        assert!(mode(&[]).contains("--type cache --cachevol fast --cachemode writethrough"));
        assert!(mode(&[("mode", "maximized")]).contains("--cachemode writeback"));
        assert!(commands("bcache", &[])[1].starts_with("echo writeback >"));
        assert!(commands("griffin", &[]).is_empty());
    }
}
