//! Figures of each scheme over several traces: geometric means of times and scores, the shortest
//! life, and the number of traces over which the scheme is a choice. A geometric mean keeps a trace
//! with long response times from weighing more than others.

use serde::Serialize;

use crate::results::{Document, Run};
use crate::setup::Sizing;

/// Means of one scheme. A figure is null unless it is above zero over every trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Means {
    /// Name of the scheme.
    pub scheme: String,
    /// Label of the scheme's runs ([`Run::label`]).
    pub label: String,
    /// Origin of the drives' sizes.
    pub sizing: Sizing,
    /// Number of traces.
    pub traces: usize,
    /// Mean response time of reads in milliseconds.
    pub read_mean_ms: Option<f64>,
    /// Mean response time of writes in milliseconds.
    pub write_mean_ms: Option<f64>,
    /// 99th percentile of all response times in milliseconds.
    pub p99_ms: Option<f64>,
    /// Shortest possible life of the flash over the traces, in years; null if the life is not known
    /// over every trace.
    pub shortest_life_years: Option<f64>,
    /// Number of traces over which no other run beats the scheme ([`Document::choices`]).
    pub choice_of: usize,
    /// Score in MB/s.
    pub score: Option<f64>,
    /// Score by the cost of the device.
    pub score_per_usd: Option<f64>,
    /// Score by the cost of the controller.
    pub score_per_manager_usd: Option<f64>,
    /// Score by the cost of controller and SSD.
    pub budget: Option<f64>,
}

impl Means {
    /// Returns the means of each scheme that runs over all of `traces`, in the order of the first
    /// trace.
    pub fn of(traces: &[Document]) -> Vec<Self> {
        let Some((first, others)) = traces.split_first() else { return Vec::new() };
        let over_all = (0..first.runs.len()).filter_map(|at| {
            let key = key(&first.runs, at);
            let others = others.iter().map(|document| {
                let place = (0..document.runs.len()).find(|&at| self::key(&document.runs, at) == key)?;
                Some((document, place))
            });
            std::iter::once(Some((first, at))).chain(others).collect::<Option<Vec<_>>>()
        });
        over_all.map(|places| Self::of_places(&places)).collect()
    }

    /// Returns the figures of runs that are given by their documents and indices there.
    fn of_places(places: &[(&Document, usize)]) -> Self {
        let runs: Vec<&Run> = places.iter().map(|&(document, at)| &document.runs[at]).collect();
        let mean = |figure: fn(&Run) -> Option<f64>| geometric_mean(runs.iter().map(|run| figure(run)));
        let lives = runs.iter().map(|run| Some(run.devices.ssd.flash.possible_years()?.0)).collect::<Option<Vec<_>>>();
        let is_choice =
            |&&(document, at): &&(&Document, usize)| document.choices.iter().flatten().any(|choice| choice.run == at);
        Self {
            scheme: runs[0].scheme.clone(),
            label: runs[0].label.clone(),
            sizing: runs[0].sizing,
            traces: runs.len(),
            read_mean_ms: mean(|run| run.response_time_ms.read.mean),
            write_mean_ms: mean(|run| run.response_time_ms.write.mean),
            p99_ms: mean(|run| run.response_time_ms.all.p99),
            shortest_life_years: lives.and_then(|lives| lives.into_iter().reduce(f64::min)),
            choice_of: places.iter().filter(is_choice).count(),
            score: mean(|run| run.cost.score),
            score_per_usd: mean(|run| run.cost.score_per_usd),
            score_per_manager_usd: mean(|run| run.cost.score_per_manager_usd),
            budget: mean(|run| run.cost.budget),
        }
    }
}

/// Returns the key by which a run is found over another trace: the label, the origin of its sizes,
/// and the number of earlier runs with the same label and origin.
fn key(runs: &[Run], at: usize) -> (&str, Sizing, usize) {
    let alike = |run: &&Run| run.label == runs[at].label && run.sizing == runs[at].sizing;
    (&runs[at].label, runs[at].sizing, runs[..at].iter().filter(alike).count())
}

/// Returns the nth root of the product of n figures; `None` where a figure is missing or not above
/// zero.
fn geometric_mean(figures: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = figures.len() as f64;
    let logarithms = figures.map(|figure| figure.filter(|figure| *figure > 0.0).map(f64::ln));
    logarithms.sum::<Option<f64>>().filter(|_| count > 0.0).map(|sum| (sum / count).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::ChosenRun;

    /// Regression: a scheme that is left out over one trace shifted the rows of all schemes after
    /// it.
    #[test]
    fn schemes_are_matched_by_name_over_traces() {
        let run = |scheme: &str, mean: f64| {
            let mut run = Run::named(scheme);
            run.response_time_ms.read.mean = Some(mean);
            run
        };
        let document = |runs: &[(&str, f64)]| Document {
            runs: runs.iter().map(|&(scheme, mean)| run(scheme, mean)).collect(),
            ..Document::default()
        };
        let traces = [
            document(&[("ssd-only", 1.0), ("griffin", 2.0), ("smq", 9.0)]),
            document(&[("griffin", 8.0), ("smq", 1.0)]),
        ];
        let means: Vec<_> = Means::of(&traces).into_iter().map(|means| (means.scheme, means.read_mean_ms)).collect();
        assert_eq!(means.len(), 2);
        for ((scheme, mean), (wanted, expected)) in means.into_iter().zip([("griffin", 4.0), ("smq", 3.0)]) {
            assert!(scheme == wanted && (mean.unwrap() - expected).abs() < 1e-12, "{scheme} {mean:?}");
        }
    }

    #[test]
    fn geometric_mean_is_the_root_of_the_product() {
        let mean = |figures: &[f64]| geometric_mean(figures.iter().copied().map(Some)).unwrap();
        assert!((mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert!((mean(&[1.0, 10.0, 100.0]) - 10.0).abs() < 1e-12);
        assert_eq!(geometric_mean([Some(2.0), None].into_iter()), None);
        assert_eq!(geometric_mean([Some(2.0), Some(0.0)].into_iter()), None);
        assert_eq!(geometric_mean([].into_iter()), None);
    }

    #[test]
    fn shortest_life_and_choices_are_those_over_all_traces() {
        let document = |years: f64, chosen: &[usize]| {
            let mut run = Run::named("griffin");
            run.devices.ssd.flash.lifetime_years = Some(years + 1.0);
            run.devices.ssd.flash.lifetime_range_years = Some((years, years + 2.0));
            let choice = |&run| ChosenRun {
                run,
                label: "griffin".into(),
                purpose: String::new(),
                p99_below_ms: None,
                mean_below_ms: None,
                outlasts_years: None,
            };
            let choices = Some(chosen.iter().map(choice).collect());
            Document { runs: vec![run, Run::named("hdd-only")], choices, ..Document::default() }
        };
        let means = Means::of(&[document(3.0, &[0, 1]), document(2.0, &[1])]);
        let told = means.iter().map(|means| (means.shortest_life_years, means.choice_of));
        assert_eq!(told.collect::<Vec<_>>(), [(Some(2.0), 1), (None, 2)]);
    }
}
