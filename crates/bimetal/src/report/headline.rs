//! The answer above the figures: the fastest scheme, the scheme that wears the SSD least, and the
//! cheapest. The answer also names ties, and questions that the trace cannot answer.

use bimetal_measure::text::{dollars, lifetime, milliseconds, three_digits};
use bimetal_sim::results::{Document, Run};
use bimetal_sim::uncertainty::differ;

use crate::choices::{CheaperToOwn, Choice, Choices, OTHER_DRIVES};
use crate::life::unknown;

use super::columns::{GIB, ranges_overlap};
use super::escape::html as escaped;
use super::sections::{capital, scheme};

/// Figures within this share of each other tie.
const TIE: f64 = 0.01;

/// Mean number of waiting requests above which requests arrive faster than the drives can complete
/// them, at least at times.
const OVERLOADED_QUEUE: f64 = 100.0;

/// An answer to one question, as HTML.
pub(crate) struct Answer {
    /// The question, in a word or two.
    pub(crate) question: &'static str,
    /// The schemes that win.
    pub(crate) winner: String,
    /// The reason, in sentences.
    pub(crate) reason: String,
}

/// Runs with the same best value, and the next best run.
struct Ranking {
    /// The best run and all runs that tie with it.
    best: Vec<usize>,
    /// Value of the best run.
    value: f64,
    /// The best of the remaining runs, with its value.
    next: Option<(usize, f64)>,
}

/// Figure of a run, with half the figure's 95 % interval.
type Figure = (f64, Option<f64>);

/// Ranks the runs that have the figure; the lowest figure comes first. Runs tie if luck may explain
/// the lead. Runs that are not choices are left out.
fn rank(document: &Document, figure: impl Fn(&Run) -> Option<Figure>) -> Option<Ranking> {
    let figure = |run: &Run| figure(run).filter(|_| run.no_choice.is_none());
    let mut order: Vec<_> =
        document.runs.iter().enumerate().filter_map(|(index, run)| Some((index, figure(run)?))).collect();
    order.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let first = order.first()?.1;
    let value = first.0;
    let is_near = |other: f64| other == value || (other - value).abs() <= TIE * value.abs();
    let ties = |other: Figure| is_near(other.0) || !differ(first, other);
    let best = order.iter().filter(|(_, other)| ties(*other)).map(|(index, _)| *index).collect();
    let next = order.iter().copied().find(|(_, other)| !ties(*other)).map(|(index, other)| (index, other.0));
    Some(Ranking { best, value, next })
}

/// Returns the whole answer in one sentence, as HTML: the choices that no other run beats, or the
/// best of each figure if no run has a price. The sentence is empty when fewer than two runs can be
/// compared.
pub(crate) fn summary(document: &Document) -> String {
    if document.runs.len() < 2 {
        return String::new();
    }
    match Choices::of(&document.runs, None) {
        Some(choices) if !choices.best.is_empty() => advice(document, &choices),
        _ => best_of_each_figure(document),
    }
}

/// Returns the choices, each with its purpose.
fn advice(document: &Document, Choices { best, beaten, .. }: &Choices) -> String {
    if let [Choice { run, purpose, .. }] = &best[..] {
        let gained = match beaten.is_empty() {
            true => String::new(),
            false => format!(": nothing is gained by {}", names(document, beaten)),
        };
        return format!("Choose {}, {purpose}{gained}.", name(document, *run));
    }
    let choice = |Choice { run, purpose, .. }: &Choice| format!("{} ({purpose})", name(document, *run));
    format!("Choose {}.", list(&best.iter().map(choice).collect::<Vec<_>>(), "or"))
}

fn best_of_each_figure(document: &Document) -> String {
    let mut parts = Vec::new();
    if let Some(latency) = rank(document, mean_latency) {
        parts.push((latency.best.clone(), format!("fastest ({} on average)", milliseconds(latency.value))));
    }
    let all: Vec<usize> = (0..document.runs.len()).collect();
    if let Some((best, why)) = least_wear(document, &all) {
        parts.push((best, format!("easiest on the SSD ({why})")));
    }
    if let Some(cost) = rank(document, price) {
        parts.push((cost.best.clone(), format!("cheapest (${})", dollars(cost.value))));
    }
    // A scheme that wins twice is named once.
    let mut grouped: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
    for (best, what) in parts {
        match grouped.iter_mut().find(|(schemes, _)| *schemes == best) {
            Some((_, whats)) => whats.push(what),
            None => grouped.push((best, vec![what])),
        }
    }
    let clauses = grouped.iter().map(|(best, whats)| {
        let verb = if best.len() == 1 { "is" } else { "tie as" };
        format!("{} {verb} {}", names(document, best), list(whats, "and"))
    });
    let text = clauses.collect::<Vec<_>>().join("; ");
    if text.is_empty() { text } else { format!("For this workload, {text}.") }
}

/// Returns the sizes and prices of the SSDs, each with its schemes.
pub(crate) fn drives(runs: &[Run]) -> String {
    let of = |run: &Run| Some((run.ssd_bytes?, run.cost.ssd_usd.map(f64::to_bits)));
    let mut drives: Vec<(u64, Option<u64>)> = runs.iter().filter_map(of).collect();
    drives.sort_unstable();
    drives.dedup();
    let only = drives.len() == 1;
    // The choice may be a scheme without an SSD.
    let where_used = if runs.iter().all(|run| run.ssd_bytes.is_some()) { "" } else { ", where a scheme has one" };
    let texts = drives.into_iter().map(|drive| {
        let price = drive.1.map_or_else(String::new, |usd| format!(" for ${}", dollars(f64::from_bits(usd))));
        let size = format!("{} GB{price}", three_digits(drive.0 as f64 / 1e9));
        let schemes: Vec<String> =
            (0..runs.len()).filter(|&at| of(&runs[at]) == Some(drive)).map(|at| scheme(runs, at)).collect();
        if only { size + where_used } else { format!("{size} ({})", list(&schemes, "and")) }
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { String::new() } else { format!("SSD: {}.", texts.join("; ")) }
}

/// Returns the choices that no other run beats, as a list.
pub(crate) fn choices(document: &Document) -> String {
    let Some(choices) = Choices::of(&document.runs, None) else {
        return String::new();
    };
    let item = |Choice { run, purpose, figures, buy, scheme }: &Choice| {
        let small = |text: &&str| format!("<br><small>{}.</small>", escaped(&capital(text)));
        let smalls: String = [*scheme, buy].iter().filter(|text| !text.is_empty()).map(small).collect();
        format!("<li>{} {purpose}: {figures}.{smalls}</li>\n", name(document, *run))
    };
    let mut items: String = choices.best.iter().map(item).collect();
    if let Some(CheaperToOwn { run, gain }) = &choices.cheaper_to_own {
        items += &format!("<li>{}: {}.</li>\n", capital(gain), name(document, *run));
    }
    if !choices.beaten.is_empty() {
        items += &format!("<li>Nothing is gained by {}.</li>\n", names(document, &choices.beaten));
    }
    for (reason, runs) in choices.no_choices() {
        items += &format!("<li>No choice, because {}: {}.</li>\n", reason.words(), names(document, &runs));
    }
    if choices.names_purchases() {
        items += &format!("<li>{}.</li>\n", escaped(&capital(OTHER_DRIVES)));
    }
    format!("<h3>What to choose</h3>\n<ul class=\"choices\">\n{items}</ul>\n")
}

/// Returns the answers one by one.
pub(crate) fn answers(document: &Document) -> Vec<Answer> {
    [latency(document), wear(document), cost(document)].into_iter().flatten().collect()
}

/// Returns warnings that a reader must know before trusting the figures, as HTML.
pub(crate) fn cautions(document: &Document) -> Vec<String> {
    let mut cautions = Vec::new();
    let (behind, bursts): (Vec<_>, Vec<_>) = (0..document.runs.len())
        .filter(|index| document.runs[*index].queue_depth_mean.is_some_and(|depth| depth > OVERLOADED_QUEUE))
        .partition(|index| still_queues_at_the_end(&document.runs[*index]));
    if !behind.is_empty() {
        let (verb, its) = if behind.len() == 1 { ("does", "its") } else { ("do", "their") };
        cautions.push(format!(
            "{} {verb} not keep up with this trace: more than {OVERLOADED_QUEUE:.0} requests wait on average, to the very \
             end, so {its} response times measure the queue and grow with the length of the trace.",
            names(document, &behind)
        ));
    }
    if !bursts.is_empty() {
        let (verb, its) = if bursts.len() == 1 { ("falls", "its") } else { ("fall", "their") };
        cautions.push(format!(
            "{} {verb} far behind at times: more than {OVERLOADED_QUEUE:.0} requests wait on average over the trace, \
             so {its} mean response times mostly reflect those times. The charts show when.",
            names(document, &bursts)
        ));
    }
    if document.trace.skipped_lines > 0 {
        cautions
            .push(format!("{} lines of the trace could not be read and were left out.", document.trace.skipped_lines));
    }
    let flash = document.runs.iter().map(|run| &run.devices.ssd.flash);
    let known = flash.clone().any(|flash| flash.possible_years().is_some());
    if let Some(reason) = flash.filter_map(|flash| flash.lifetime_unknown).next().filter(|_| !known) {
        cautions.push(format!(
            "The lifetime of no SSD can be told ({}); compare the bytes written instead.",
            unknown(reason)
        ));
    }
    cautions
}

/// Returns true if the mean queue in the last tenth of the arrivals is at least half as long as the
/// mean of the run. The time after the last arrival does not count, because after it the queue only
/// drains.
fn still_queues_at_the_end(run: &Run) -> bool {
    let (Some(mean), Some(queue)) = (run.queue_depth_mean, &run.series.queue_depth) else { return true };
    let arrivals_s = run.series.latency.mean_ms.len() as f64 * run.series.latency.bucket_s;
    let end = queue.values.len().min((arrivals_s / queue.bucket_s).ceil() as usize);
    let last = &queue.values[end - end.div_ceil(10)..end];
    last.is_empty() || last.iter().sum::<f64>() / last.len() as f64 >= mean / 2.0
}

fn mean_latency(run: &Run) -> Option<Figure> {
    let times = &run.response_time_ms.all;
    times.mean.map(|mean| (mean, times.mean_pm))
}

fn tail_latency(run: &Run) -> Option<Figure> {
    let times = &run.response_time_ms.all;
    times.p99.map(|p99| (p99, times.p99_pm))
}

fn price(run: &Run) -> Option<Figure> {
    run.cost.total_usd.map(|usd| (usd, None))
}

fn written(run: &Run) -> Option<Figure> {
    written_gib(run).map(|gib| (gib, run.devices.ssd.write_bytes_pm.map(|bytes| bytes / GIB)))
}

fn latency(document: &Document) -> Option<Answer> {
    let ranking = rank(document, mean_latency)?;
    let mut reason = format!("{} from arrival to completion on average", milliseconds(ranking.value));
    let p99 = document.runs[ranking.best[0]].response_time_ms.all.p99;
    if let Some(p99) = p99 {
        reason += &format!(", 99 % within {}", milliseconds(p99));
    }
    reason += ".";
    if let Some((next, value)) = ranking.next {
        reason += &format!(
            " Next is {} with {}, {}.",
            name(document, next),
            milliseconds(value),
            times(value / ranking.value, "as long")
        );
    }
    if let Some(tail) = rank(document, tail_latency)
        && !tail.best.iter().any(|index| ranking.best.contains(index))
    {
        reason += &format!(
            " The shortest tail is {}’s: 99 % within {}.",
            names(document, &tail.best),
            milliseconds(tail.value)
        );
    }
    Some(Answer { question: "Latency", winner: winners(document, &ranking.best), reason })
}

/// Returns the schemes of `among` with the least wear of an SSD, and the figure that decides: the
/// shortest possible life, or bytes written if a life is unknown. Lives tie if their ranges
/// overlap.
fn least_wear(document: &Document, among: &[usize]) -> Option<(Vec<usize>, String)> {
    let runs = &document.runs;
    let among = || among.iter().copied().filter(|&at| runs[at].no_choice.is_none());
    let range = |at: usize| runs[at].devices.ssd.flash.possible_years();
    let is_unknown = |at: usize| range(at).is_none() && runs[at].devices.ssd.flash.lifetime_unknown.is_some();
    let all_known = !among().any(is_unknown);
    let lives = || among().filter_map(|at| Some((at, range(at)?))).filter(|_| all_known);
    if let Some((_, longest)) = lives().max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0)) {
        let is_near = |years: f64| (longest.0 - years) <= TIE * longest.0;
        let tie = lives().filter(|(_, other)| is_near(other.0) || ranges_overlap(longest, *other));
        let best: Vec<usize> = tie.clone().map(|(at, _)| at).collect();
        let shortest = tie.clone().map(|(_, (least, _))| least).fold(f64::INFINITY, f64::min);
        let is_sure = tie.clone().all(|(_, (least, most))| least == most && is_near(least));
        let words = lifetime_in_words(shortest);
        let least = if is_sure || words.starts_with("more than") { "" } else { "at least " };
        return Some((best, format!("{least}{words} at this load")));
    }
    let written = rank(document, |run| written(run).filter(|_| among().any(|at| std::ptr::eq(&runs[at], run))))?;
    Some((written.best, format!("{} GiB written", three_digits(written.value))))
}

/// Returns a lifetime in the words of a sentence.
fn lifetime_in_words(years: f64) -> String {
    let text = lifetime(years);
    let Some((number, unit)) = text.split_once(' ') else { return text };
    let unit = match unit {
        "y" => "years",
        "mo" => "months",
        "d" => "days",
        _ => "hours",
    };
    format!("{} {unit}", number.replace('>', "more than "))
}

fn written_gib(run: &Run) -> Option<f64> {
    run.devices.ssd.write_bytes.map(|bytes| bytes as f64 / GIB)
}

/// Returns the answer about the wear of the SSD. Of runs with prices, only the choices are praised.
fn wear(document: &Document) -> Option<Answer> {
    let runs = &document.runs;
    let choices = Choices::of(runs, None).filter(|choices| !choices.best.is_empty());
    let among: Vec<usize> = match choices {
        Some(choices) => choices.best.iter().map(|choice| choice.run).collect(),
        None => (0..runs.len()).collect(),
    };
    let (best, why) = least_wear(document, &among)?;
    let is_limited = (0..runs.len()).any(|at| runs[at].ssd.is_some() && !among.contains(&at));
    let of_choices = if is_limited { ", of the choices" } else { "" };
    let mut reason = format!("{}{of_choices}.", capital(&why));
    let yardstick = runs.iter().find(|run| run.scheme == "ssd-only");
    let first = &runs[best[0]];
    if let (Some(yardstick), Some(own)) = (yardstick.and_then(written_gib), written_gib(first))
        && first.scheme != "ssd-only"
        && best.len() == 1
        && yardstick > 0.0
    {
        let share = own / yardstick;
        reason += &if share < 1.0 {
            format!(
                " It writes {:.0} % less to its SSD than {}.",
                (1.0 - share) * 100.0,
                scheme_of(document, "ssd-only")
            )
        } else {
            format!(" It writes {} to its SSD as {}.", times(share, "as much"), scheme_of(document, "ssd-only"))
        };
    }
    let of_choice = |run: &Run| written(run).filter(|_| among.iter().any(|&at| std::ptr::eq(&runs[at], run)));
    if let Some(least) = rank(document, of_choice)
        && !least.best.iter().any(|index| best.contains(index))
    {
        let (names, gib) = (names(document, &least.best), three_digits(least.value));
        reason += &format!(" {names} writes least to its SSD{of_choices} ({gib} GiB).");
    }
    let without: Vec<_> = (0..runs.len()).filter(|index| runs[*index].ssd.is_none()).collect();
    if !without.is_empty() {
        let verb = if without.len() == 1 { "has" } else { "have" };
        reason += &format!(" {} {verb} no SSD to wear out.", names(document, &without));
    }
    let tie = if best.len() > 1 { " <small>tie: none surely wears less</small>" } else { "" };
    Some(Answer { question: "SSD wear", winner: format!("{}{tie}", names(document, &best)), reason })
}

fn cost(document: &Document) -> Option<Answer> {
    let runs = &document.runs;
    let ranking = rank(document, price)?;
    let controller = runs[ranking.best[0]].cost.controller_usd.is_some_and(|price| price > 0.0);
    let what = if controller { "the drives and the controller" } else { "the drives" };
    let mut reason = format!("${} for {what}.", dollars(ranking.value));
    let with_ssd = rank(document, |run| price(run).filter(|_| run.ssd.is_some()));
    if let Some(with_ssd) = with_ssd
        && !with_ssd.best.iter().any(|index| ranking.best.contains(index))
    {
        reason += &format!(" With an SSD: {} at ${}.", names(document, &with_ssd.best), dollars(with_ssd.value));
    }
    let efficient = efficient(document);
    let choices = runs.iter().filter(|run| run.no_choice.is_none()).count();
    if efficient.len() < choices && efficient.len() > 1 {
        reason += &format!(" Nothing is both cheaper and faster than {}.", names(document, &efficient));
    }
    Some(Answer { question: "Cost", winner: winners(document, &ranking.best), reason })
}

/// Returns the runs that no other run beats. A run beats another if it is at least as cheap and at
/// least as fast, and better in one of the two.
fn efficient(document: &Document) -> Vec<usize> {
    let runs = &document.runs;
    let point = |run: &Run| Some((run.cost.total_usd.filter(|_| run.no_choice.is_none())?, mean_latency(run)?.0));
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    (0..runs.len())
        .filter(|index| {
            point(&runs[*index]).is_some_and(|own| !runs.iter().filter_map(point).any(|other| beats(other, own)))
        })
        .collect()
}

/// Returns `ratio` in words: "2.30 times as long".
fn times(ratio: f64, what: &str) -> String {
    if ratio.is_finite() { format!("{} times {what}", three_digits(ratio)) } else { "far more".to_owned() }
}

fn name(document: &Document, index: usize) -> String {
    scheme(&document.runs, index)
}

/// Returns the name of the run with scheme `wanted`.
fn scheme_of(document: &Document, wanted: &str) -> String {
    let index = document.runs.iter().position(|run| run.scheme == wanted);
    index.map_or_else(|| wanted.to_owned(), |index| name(document, index))
}

fn names(document: &Document, indices: &[usize]) -> String {
    let names: Vec<_> = indices.iter().map(|index| name(document, *index)).collect();
    list(&names, "and")
}

fn winners(document: &Document, best: &[usize]) -> String {
    let tie = if best.len() > 1 { " <small>tie: within 1 %, or within ±</small>" } else { "" };
    format!("{}{tie}", names(document, best))
}

fn list(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use bimetal_sim::findings::NoChoice;

    use super::*;
    use bimetal_sim::lifetime::Unknown;
    use bimetal_sim::results::{LatencySeries, TimeSeries};

    fn run(scheme: &str, mean_ms: f64, cost: f64, written_gib: Option<f64>, life: Option<f64>) -> Run {
        let mut run = Run::named(scheme);
        run.response_time_ms.all.mean = Some(mean_ms);
        run.response_time_ms.all.p99 = Some(mean_ms * 5.0);
        run.cost.total_usd = Some(cost);
        if let Some(gib) = written_gib {
            run.ssd = Some("p".into());
            run.devices.ssd.write_bytes = Some((gib * GIB) as u64);
            run.devices.ssd.flash.lifetime_years = life;
            run.devices.ssd.flash.lifetime_unknown = life.is_none().then_some(Unknown::NothingErased);
            run.devices.ssd.flash.erases = Some(if life.is_some() { 9 } else { 0 });
        }
        run
    }

    fn document(runs: Vec<Run>) -> Document {
        Document { bimetal: "0".into(), runs, ..Document::default() }
    }

    /// Returns `html` without its tags.
    fn text(html: &str) -> String {
        html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
    }

    #[test]
    fn each_question_is_answered_from_the_figures() {
        let document = document(vec![
            run("ssd-only", 0.1, 200.0, Some(10.0), Some(4.0)),
            run("griffin", 0.4, 230.0, Some(4.0), Some(10.0)),
            run("hdd-only", 9.0, 50.0, None, None),
        ]);
        assert_eq!(
            text(&best_of_each_figure(&document)),
            "For this workload, ssd-only is fastest (0.100 ms on average); griffin is easiest on the SSD (10.0 years at \
             this load); hdd-only is cheapest ($50.00)."
        );
        let answers = answers(&document);
        assert!(text(&answers[0].reason).contains("Next is griffin with 0.400 ms, 4.00 times as long."));
        assert!(text(&answers[1].reason).contains("60 % less to its SSD than ssd-only"));
        assert!(text(&answers[1].reason).contains("hdd-only has no SSD"));
        assert!(text(&answers[2].reason).contains("Nothing is both cheaper and faster than ssd-only and hdd-only."));
    }

    /// The first sentence praised a disk for $200 as easiest on the SSD, beside an SSD for $45 that
    /// was faster.
    #[test]
    fn first_sentence_praises_only_choices() {
        let mut document = document(vec![
            run("ssd-only", 0.1, 45.0, Some(10.0), Some(12.0)),
            run("griffin", 0.4, 230.0, Some(4.0), Some(90.0)),
            run("hdd-only", 9.0, 200.0, None, None),
        ]);
        let said = |document: &Document| text(&summary(document));
        assert_eq!(said(&document), "Choose ssd-only, the cheapest: nothing is gained by griffin and hdd-only.");
        document.runs[0].cost.total_usd = Some(245.0);
        let two =
            "Choose hdd-only (the cheapest), griffin (for a p99 below 45.0 ms) or ssd-only (for a p99 below 2.00 ms).";
        assert_eq!(said(&document), two);
        document.runs.iter_mut().for_each(|run| run.cost.total_usd = None);
        assert!(!said(&document).contains("hoose"), "{}", said(&document));
    }

    #[test]
    fn sizes_and_prices_of_ssds_are_on_the_first_screen() {
        let ssd = |scheme: &str, bytes, usd| {
            let mut run = run(scheme, 1.0, 100.0, Some(1.0), None);
            (run.ssd_bytes, run.cost.ssd_usd) = (Some(bytes), Some(usd));
            run
        };
        let (small, large) = (ssd("smq", 250_000_000_000, 90.0), ssd("ssd-only", 2_000_000_000_000, 500.0));
        let disk = run("hdd-only", 9.0, 80.0, None, None);
        assert_eq!(text(&drives(&[small.clone(), disk.clone()])), "SSD: 250 GB for $90.00, where a scheme has one.");
        assert_eq!(text(&drives(std::slice::from_ref(&small))), "SSD: 250 GB for $90.00.");
        let both = text(&drives(&[large, small, disk.clone()]));
        assert_eq!(both, "SSD: 250 GB for $90.00 (smq); 2000 GB for $500 (ssd-only).");
        assert_eq!(drives(&[disk]), "");
    }

    /// Regression: the answer about wear praised the run of a scheme that gained nothing, and a
    /// life whose range overlapped the range of the next.
    #[test]
    fn wear_praises_only_choices_that_surely_last_longer() {
        let mut document = document(vec![
            run("ssd-only", 0.1, 45.0, Some(10.0), Some(3.0)),
            run("griffin", 0.4, 230.0, Some(4.0), Some(3.2)),
            run("bcache", 0.09, 240.0, Some(9.0), Some(3.1)),
        ]);
        let wear = |document: &Document| wear(document).map(|answer| (text(&answer.winner), text(&answer.reason)));
        let (winner, reason) = wear(&document).unwrap();
        assert_eq!(
            (winner.as_str(), reason.as_str()),
            ("ssd-only", "3.00 years at this load, of the choices."),
            "griffin gains nothing"
        );
        document.runs[1].devices.ssd.flash.lifetime_years = Some(9.0);
        assert_eq!(wear(&document).unwrap().0, "griffin");
        document.runs[0].devices.ssd.flash.lifetime_range_years = Some((3.0, 9.0));
        document.runs[1].devices.ssd.flash.lifetime_range_years = Some((4.0, 9.5));
        let (winner, reason) = wear(&document).unwrap();
        assert!(winner.starts_with("ssd-only and griffin") && winner.contains("tie: none surely"), "{winner}");
        assert!(
            reason.starts_with("At least 3.00 years at this load, of the choices.") && !reason.contains("% less"),
            "{reason}"
        );
        document.runs[1].no_choice = Some(NoChoice::NothingWrittenHome);
        assert_eq!(wear(&document).unwrap().0, "ssd-only");
        document.runs[0].devices.ssd.flash.lifetime_years = Some(200.0);
        document.runs[0].devices.ssd.flash.lifetime_range_years = Some((150.0, 300.0));
        assert!(wear(&document).unwrap().1.starts_with("More than 100 years at this load"));
    }

    /// Regression: the answer about wear named the choice that writes least, as if it were the
    /// scheme that writes least. The table marked another scheme.
    #[test]
    fn least_writer_is_said_to_be_of_the_choices() {
        let mut document = document(vec![
            run("ssd-only", 0.1, 245.0, Some(3.0), Some(9.0)),
            run("griffin", 0.4, 230.0, Some(2.0), Some(3.0)),
            run("smq", 9.0, 300.0, Some(1.0), Some(1.0)),
        ]);
        let reason = |document: &Document| text(&wear(document).unwrap().reason);
        let of_choices = " writes least to its SSD, of the choices (2.00 GiB).";
        assert!(reason(&document).contains(&format!("griffin{of_choices}")), "{}", reason(&document));
        document.runs.pop();
        assert!(reason(&document).contains("griffin writes least to its SSD (2.00 GiB)."), "{}", reason(&document));
    }

    /// The SSD of combo had the few addresses of the trace, so combo was the fastest for 8 TB.
    #[test]
    fn scheme_that_depends_on_unknown_addresses_is_not_praised() {
        let mut document = document(vec![
            run("combo", 0.1, 50.0, Some(10.0), Some(4.0)),
            run("griffin", 0.4, 230.0, Some(4.0), Some(10.0)),
        ]);
        let praised =
            |document: &Document| text(&summary(document)).contains("combo") || efficient(document).contains(&0);
        assert!(praised(&document));
        document.runs[0].no_choice = Some(NoChoice::TooFewAddresses);
        assert!(!praised(&document));
    }

    #[test]
    fn a_tie_is_called_a_tie() {
        let document =
            document(vec![run("a", 1.0, 10.0, Some(1.0), Some(2.0)), run("b", 1.005, 10.0, Some(1.0), Some(2.0))]);
        assert_eq!(
            text(&best_of_each_figure(&document)),
            "For this workload, a and b tie as fastest (1.00 ms on average), easiest on the SSD (2.00 years at this \
             load) and cheapest ($10.00)."
        );
        let answers = answers(&document);
        let mut others = answers.iter().filter(|answer| answer.question != "SSD wear");
        assert!(others.all(|answer| answer.winner.contains("tie")), "only a is a choice");
    }

    #[test]
    fn where_lives_are_unknown_bytes_decide_and_the_reader_is_told() {
        let document = document(vec![run("a", 1.0, 1.0, Some(3.0), None), run("b", 2.0, 2.0, Some(2.0), None)]);
        assert!(text(&best_of_each_figure(&document)).contains("b is easiest on the SSD (2.00 GiB written)"));
        assert!(cautions(&document)[0].contains("can be told (nothing was erased"));
    }

    #[test]
    fn a_scheme_that_cannot_keep_up_is_named() {
        let mut slow = run("hdd-only", 5000.0, 1.0, None, None);
        slow.queue_depth_mean = Some(4000.0);
        let queue = |values| Some(TimeSeries { start_s: 0.0, bucket_s: 1.0, values });
        slow.series.latency = LatencySeries { bucket_s: 2.0, mean_ms: vec![None; 10], ..LatencySeries::default() };
        // The queue drains after the last arrival.
        slow.series.queue_depth = queue([vec![4000.0; 20], vec![0.0; 20]].concat());
        let mut jerky = slow.clone();
        jerky.series.queue_depth = queue([vec![8000.0; 10], vec![0.0; 10]].concat());
        let document = document(vec![slow, jerky, run("b", 1.0, 2.0, Some(1.0), Some(1.0))]);
        assert!(text(&cautions(&document)[0]).starts_with("hdd-only 1 does not keep up"));
        assert!(text(&cautions(&document)[1]).starts_with("hdd-only 2 falls far behind at times"));
    }

    #[test]
    fn without_figures_nothing_is_claimed() {
        let document = document(vec![Run::default(), Run::default()]);
        assert_eq!(summary(&document), "");
        assert!(answers(&document).is_empty());
    }
}
