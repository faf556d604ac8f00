//! Commands that set up the function of Linux that is most similar to a scheme. The commands of
//! Linux do not translate a plan exactly: Linux uses its own policies. The plan's predictions hold
//! for Bimetal only.

use bimetal_core::scheme::{CacheMode, LinuxCounterpart};
use bimetal_core::settings::Settings;
use bimetal_sim::simulator::SimulationError;

use crate::budget::Budget;
use crate::closest::{Broken, broken};
use crate::evaluate::Outcome;
use crate::grid::Candidate;
use crate::search::{Search, Tried};

/// Option that models the similar function of Linux on the drives of the best option, and breaks
/// budgets.
pub(crate) struct BrokenInLinux {
    /// Scheme that models the function.
    pub(crate) model: &'static str,
    /// The broken budgets, each with its figure.
    pub(crate) reasons: Vec<String>,
}

impl Search<'_> {
    /// Returns the budgets that the similar function of Linux breaks on the drives of the best
    /// option; `None` if there is no model of the function, or if the model keeps the budgets. Runs
    /// the model to its end: a run that was stopped has no figures, because the option was slower
    /// than another.
    ///
    /// # Errors
    /// Returns an error if the totals of a run contradict each other.
    pub(crate) fn broken_in_linux(&self, tried: &[Tried]) -> Result<Option<BrokenInLinux>, SimulationError> {
        let model = self.best(tried).and_then(|best| model_of(&best.candidate, tried));
        let Some(model) = model.filter(|model| !matches!(model.outcome, Some(Outcome::Impossible(_)))) else {
            return Ok(None);
        };
        let mut judged = model.clone();
        if !model.judged {
            judged = self.try_one(model.candidate.clone(), &[], true)?;
            self.judge(&mut judged)?;
        }
        Ok(self.broken_by(&judged))
    }

    /// Returns the budgets that a model breaks, as far as their figures are known.
    fn broken_by(&self, model: &Tried) -> Option<BrokenInLinux> {
        let figures = model.figures()?;
        let known = |budget: &&Budget| !budget.needs_lives() || figures.lives.is_some();
        let budgets: Vec<Budget> = self.budgets.iter().filter(known).cloned().collect();
        let reasons: Vec<String> = broken(figures, &budgets).iter().map(Broken::reason).collect();
        (!reasons.is_empty()).then_some(BrokenInLinux { model: model.candidate.scheme.name, reasons })
    }
}

/// Returns the option of `tried` that models the similar function of Linux, in the same cache mode,
/// on the drives of `candidate`. `None` if this option is `candidate` itself.
fn model_of<'t>(candidate: &Candidate, tried: &'t [Tried]) -> Option<&'t Tried> {
    let similar = counterpart(candidate)?;
    let name = match similar {
        LinuxCounterpart::DmCache(_) => "smq",
        LinuxCounterpart::Bcache(_) => "bcache",
        LinuxCounterpart::DmWritecache => return None,
    };
    let is_model = |tried: &&Tried| {
        tried.candidate.scheme.name == name
            && tried.candidate.variant == 0
            && tried.candidate.drives == candidate.drives
            && counterpart(&tried.candidate) == Some(similar)
    };
    tried.iter().find(is_model).filter(|_| candidate.scheme.name != name)
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
    use std::sync::atomic::AtomicU64;

    use bimetal_core::schemes;
    use bimetal_core::units::Bytes;
    use bimetal_models::profile::Profile;
    use bimetal_sim::lifetime::{KnownWear, Life};
    use bimetal_sim::results::Run;
    use bimetal_sim::setup::Choices;
    use bimetal_sim::simulator::Replay;
    use bimetal_trace::Request;

    use super::*;
    use crate::bounds::Bounds;
    use crate::evaluate::{Evaluator, Figures, Load};
    use crate::tests::Nobody;

    fn option(scheme: &str, settings: &[(&str, &str)]) -> Tried {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let scheme = schemes::find(scheme).unwrap();
        let candidate = Candidate { index: 0, variant: 0, scheme, drives: Vec::new(), settings, cost_usd: 0.0 };
        Tried { candidate, outcome: None, reasons: Vec::new(), judged: false }
    }

    /// A plan compared smart-response, which is a write-through cache by default, with a write-back
    /// cache.
    #[test]
    fn model_of_linux_has_the_cache_mode_of_the_option() {
        let is_model = |model: &str, scheme: &str, settings: &[(&str, &str)]| {
            model_of(&option(scheme, settings).candidate, &[option(model, &[])]).is_some()
        };
        assert!(is_model("smq", "hybrid-disk", &[]));
        assert!(is_model("smq", "smart-response", &[("mode", "maximized")]));
        assert!(!is_model("smq", "smart-response", &[]), "smq writes back");
        assert!(!is_model("bcache", "hybrid-disk", &[]), "hybrid-disk is similar to dm-cache");
        assert!(!is_model("smq", "smq", &[]), "it is the option itself");
    }

    /// A plan that had rejected bcache named make-bcache as similar to its best option. A plan said
    /// that smq breaks a budget, because smq was slower than another option and its lifetime was
    /// not computed.
    #[test]
    fn model_of_linux_breaks_only_budgets_whose_figures_are_known() {
        let (requests, common, known_wear) = (Vec::<Request>::new(), Choices::default(), KnownWear::default());
        let load = Load::read(&requests, &common, 0.0, &|_| {}).unwrap();
        let replay = Replay::Timed { speedup: 1.0 };
        let search = Search {
            evaluator: &Evaluator {
                load: &load,
                common: &common,
                replay,
                known_wear: &known_wear,
                variation: Default::default(),
            },
            bounds: &Bounds::of(&load, &common, replay, &[], &[]),
            grown: None,
            budgets: &[Budget::parse("p99<20ms").unwrap(), Budget::lifetime("1y").unwrap()],
            progress: &Nobody,
            simulations: &AtomicU64::new(0),
            sure: false,
        };
        let reasons = |p99_ms: f64, lives: Option<Vec<Life>>| {
            let mut run = Run::named("smq");
            run.response_time_ms.all.p99 = Some(p99_ms);
            let outcome = Some(Outcome::Done(Box::new(Figures { lives, ..Figures::of_run(run) })));
            let reasons = vec!["slower than another option".to_owned()];
            search.broken_by(&Tried { outcome, reasons, ..option("smq", &[]) }).map(|broken| broken.reasons)
        };
        assert_eq!(reasons(15.0, None), None, "its lifetime is not known");
        assert_eq!(reasons(30.0, None), Some(vec!["p99 30 ms breaks p99<20ms".to_owned()]));
        let profile = Profile::load("intel-x25-m-80gb").unwrap();
        let life = |years| Life { years: Some(years), ..Life::at_rates("ssd", &profile, Bytes(80 << 30), 1.0, 1.0) };
        assert_eq!(
            reasons(15.0, Some(vec![life(0.5)])),
            Some(vec!["lifetime 0.5 years breaks lifetime>=1y".to_owned()])
        );
        assert_eq!(reasons(15.0, Some(vec![life(2.0)])), None);
    }

    #[test]
    fn the_cache_mode_follows_the_settings_of_the_scheme() {
        let commands = |scheme: &str, settings: &[(&str, &str)]| commands(&option(scheme, settings).candidate);
        let mode = |settings: &[(&str, &str)]| commands("smart-response", settings).pop().unwrap();
        assert!(mode(&[]).contains("--type cache --cachevol fast --cachemode writethrough"));
        assert!(mode(&[("mode", "maximized")]).contains("--cachemode writeback"));
        assert!(commands("bcache", &[])[1].starts_with("echo writeback >"));
        assert!(commands("griffin", &[]).is_empty());
    }
}
