//! Options of a plan that were not chosen, as text. Schemes that were not chosen for the same
//! reason share a line.

use std::fmt::Write as _;

use bimetal_measure::text::price;
use bimetal_plan::Planned;
use bimetal_plan::answer::{sentence, verdict};
use bimetal_plan::evaluate::{Outcome, is_too_small};
use bimetal_plan::search::{MORE_EXPENSIVE, Tried};

/// Number of options that keep the budgets and are better in something, which are shown.
const BETTER_SHOWN: usize = 4;

/// The shown part of the options that were not chosen.
pub(super) struct Others<'a> {
    /// Options that keep the budgets and are better in something than every option that costs less.
    better: Vec<&'a Tried>,
    /// For each scheme other than these and the best option's, the option whose simulation came
    /// furthest.
    of_schemes: Vec<&'a Tried>,
}

impl<'a> Others<'a> {
    pub(super) fn of(planned: &'a Planned) -> Self {
        let (keepers, rest) = planned.tried.split_at(planned.kept);
        let mut better: Vec<&Tried> = Vec::new();
        // An option that is dearer and no better says nothing.
        for (_, keeper) in keepers.iter().enumerate().skip(1).filter(|(at, _)| planned.front.contains(at)) {
            let mut shown = better.iter().copied().chain(keepers.first());
            if better.len() < BETTER_SHOWN && !shown.any(|shown| shown.candidate.builds_as(&keeper.candidate)) {
                better.push(keeper);
            }
        }
        let mut rest: Vec<&Tried> = keepers.iter().skip(1).chain(rest).collect();
        rest.sort_by(|one, other| {
            let by_price = one.candidate.cost_usd.total_cmp(&other.candidate.cost_usd);
            let breaks = |tried: &Tried| !tried.reasons.is_empty();
            let by_verdict = breaks(one).cmp(&breaks(other));
            distance(one)
                .cmp(&distance(other))
                .then(by_verdict)
                .then(by_price)
                .then(one.candidate.index.cmp(&other.candidate.index))
        });
        let mut of_schemes: Vec<&Tried> = Vec::new();
        for other in rest {
            let scheme = other.candidate.scheme.name;
            let mut shown = better.iter().copied().chain(keepers.first()).chain(of_schemes.iter().copied());
            if shown.all(|shown| shown.candidate.scheme.name != scheme) {
                of_schemes.push(other);
            }
        }
        Self { better, of_schemes }
    }

    /// Returns every option that is shown.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Tried> {
        self.better.iter().chain(&self.of_schemes).copied()
    }

    /// Returns the options as text for people.
    pub(super) fn text(&self, planned: &Planned) -> String {
        let mut text = String::new();
        let line = |tried: &Tried| {
            let reason = match (tried.reasons.is_empty(), planned.answer.budgets.is_empty()) {
                (true, true) => String::new(),
                (true, false) if verdict(tried).as_deref() == Some("kept") => String::new(),
                (true, false) => format!(": {}", planned.keeps(tried)),
                (false, _) => format!(": {}", tried.reasons.join("; ")),
            };
            format!("  {}{reason}\n", sentence(tried, &planned.latency))
        };
        if !self.better.is_empty() {
            text += "\nother options that are better in something:\n";
            text.extend(self.better.iter().map(|tried| line(tried)));
        }
        let (costly, told): (Vec<&Tried>, Vec<&Tried>) =
            self.of_schemes.iter().partition(|tried| tried.reasons.iter().any(|why| why.starts_with(MORE_EXPENSIVE)));
        if !self.of_schemes.is_empty() {
            text += "\none option of every other scheme:\n";
        }
        let mut groups: Vec<(Option<&str>, Vec<&Tried>)> = Vec::new();
        for tried in told {
            let reason = shared_reason(tried);
            match groups.iter_mut().find(|(known, _)| known.is_some() && *known == reason) {
                Some((_, group)) => group.push(tried),
                None => groups.push((reason, vec![tried])),
            }
        }
        for (reason, group) in groups {
            match (reason, &group[..]) {
                (Some(reason), [_, _, ..]) => {
                    let named: Vec<String> = group.iter().map(|tried| named(tried, planned)).collect();
                    let _ = writeln!(text, "  {reason}: {}", named.join(", "));
                }
                _ => text.extend(group.iter().map(|tried| line(tried))),
            }
        }
        if !costly.is_empty() {
            let named =
                |tried: &&Tried| format!("{} from {}", tried.candidate.scheme.name, price(tried.candidate.cost_usd));
            let named: Vec<String> = costly.iter().map(named).collect();
            let _ = writeln!(text, "  not run, because they cost more than the best option: {}", named.join(", "));
        }
        text
    }
}

/// Returns how far an option is from a complete simulation. An option with a lower number says
/// more about its scheme.
fn distance(tried: &Tried) -> u32 {
    match &tried.outcome {
        Some(Outcome::Done(_)) => 0,
        Some(Outcome::Stopped { .. }) => 1,
        None => 2,
        Some(Outcome::Impossible(why)) => distance_of_impossible(why, tried.candidate.has_several_drives()),
    }
}

/// Returns the distance of an option that cannot be built for the reason `why`. A drive that is too
/// small says less than drives that were bought for the size, and least of all if the size is the
/// reason: a larger drive may have another reason.
fn distance_of_impossible(why: &str, has_several_drives: bool) -> u32 {
    match (is_too_small(why), has_several_drives) {
        (false, true) => 3,
        (false, false) => 4,
        (true, _) => 5,
    }
}

/// Returns the only reason against an option, without the part that holds for this option alone.
fn shared_reason(tried: &Tried) -> Option<&str> {
    let [reason] = &tried.reasons[..] else { return None };
    reason.split(", which was certain after").next()
}

/// Returns the scheme of an option, with its settings, its figure and its price.
fn named(tried: &Tried, planned: &Planned) -> String {
    let candidate = &tried.candidate;
    let settings: String = candidate.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let latency = &planned.latency;
    let figure = tried.figures().map(|figures| latency.show(figures.predicted(latency)));
    let figure = figure.map_or_else(String::new, |shown| format!("{} {shown}, ", latency.name()));
    format!("{}{settings} ({figure}{})", candidate.scheme.name, price(candidate.cost_usd))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a scheme was left out because of a disk that is too small, although the reason
    /// on a larger disk was another.
    #[test]
    fn drive_that_is_too_small_is_the_last_reason() {
        let small = "its HDD is too small: expected at least 8 TB";
        let other = "the trace accesses the first 17 GB of 8 TB";
        let distance = distance_of_impossible;
        assert!(distance(other, true) < distance(other, false));
        assert!(distance(other, false) < distance(small, true).min(distance(small, false)));
    }
}
