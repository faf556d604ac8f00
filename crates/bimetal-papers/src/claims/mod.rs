//! Claims of the five papers: for each the place, the paper's value, and the workload that tests
//! the claim.
//!
//! A claim is one sentence of a paper with a number, in our words. This folder holds only data and
//! the rule that makes a verdict of a measured value. The values were written down before any
//! experiment ran; `crate::experiments` measures the values of Bimetal.

mod combo;
pub(crate) mod griffin;
mod konanki;
mod managers;
mod mixedstore;

use std::fmt;

/// A paper with claims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Paper {
    /// Soundararajan and others: *Extending SSD Lifetimes with Disk-Based Write Caches*.
    Griffin,
    /// Lee and others: *Performance Analysis of SSD/HDD Hybrid Storage Manager*.
    Managers,
    /// Payer and others: *Combo Drive*.
    Combo,
    /// Konanki: *An Exploration of Hybrid Hard Disk Designs Using an Extensible Simulator*.
    Konanki,
    /// *MixedStore: An Enterprise-scale Storage System*.
    MixedStore,
}

impl Paper {
    /// Papers in the order of the table.
    pub const ALL: [Self; 5] = [Self::Griffin, Self::Managers, Self::Combo, Self::Konanki, Self::MixedStore];

    /// Returns the name by which `bimetal reproduce` knows the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Griffin => "griffin",
            Self::Managers => "managers",
            Self::Combo => "combo",
            Self::Konanki => "konanki",
            Self::MixedStore => "mixedstore",
        }
    }

    /// Returns authors, title and year.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Griffin => "Soundararajan et al.: Extending SSD Lifetimes with Disk-Based Write Caches (FAST 2010)",
            Self::Managers => "Lee et al.: Performance Analysis of SSD/HDD Hybrid Storage Manager",
            Self::Combo => "Payer et al.: Combo Drive (WISH 2009)",
            Self::Konanki => "Konanki: An Exploration of Hybrid Hard Disk Designs Using an Extensible Simulator",
            Self::MixedStore => {
                "MixedStore: An Enterprise-scale Storage System Combining Solid-state and Hard Disk Drives"
            }
        }
    }

    /// Returns the paper's claims.
    pub const fn claims(self) -> &'static [Claim] {
        match self {
            Self::Griffin => griffin::CLAIMS,
            Self::Managers => managers::CLAIMS,
            Self::Combo => combo::CLAIMS,
            Self::Konanki => konanki::CLAIMS,
            Self::MixedStore => mixedstore::CLAIMS,
        }
    }
}

/// A sentence of a paper with a number.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Name of the claim, unique over all papers.
    pub name: &'static str,
    /// Figure, table or section of the paper.
    pub place: &'static str,
    /// The claim in our words, without the number's value.
    pub says: &'static str,
    /// Value of the paper, and the rule of the verdict.
    pub expected: Expected,
    /// Unit of the value.
    pub unit: Unit,
    /// Trace or workload that tests the claim.
    pub workload: Workload,
}

impl Claim {
    /// Returns the verdict on a measured value.
    pub fn verdict(&self, ours: f64) -> Verdict {
        match self.expected.verdict(ours) {
            Verdict::Agrees if self.definition().is_some() => Verdict::ByDefinition,
            Verdict::Agrees if self.fitted().is_some() => Verdict::Fitted,
            verdict => verdict,
        }
    }

    /// Returns the definition of Bimetal from which an agreement follows; `None` for a claim that
    /// tests something.
    pub fn definition(&self) -> Option<&'static str> {
        let mut all = griffin::DEFINED.iter().chain(&managers::DEFINED);
        all.find(|(name, _)| *name == self.name).map(|(_, definition)| *definition)
    }

    /// Returns the fit to the paper that makes the claim agree; `None` for a claim that tests
    /// something.
    pub fn fitted(&self) -> Option<&'static str> {
        let mut all = combo::FITTED.iter().chain(&griffin::FITTED);
        all.find(|(name, _)| *name == self.name).map(|(_, fit)| *fit)
    }
}

/// Value of a paper, and the rule by which a measured value agrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Expected {
    /// A change: the effect of a mechanism. The paper has the value `paper`, and without the
    /// mechanism the value would be `without`. A value agrees within a quarter of the effect; a
    /// value on the same side of `without` has the right direction.
    Change {
        /// Value of the paper.
        paper: f64,
        /// Value if the mechanism had no effect.
        without: f64,
    },
    /// A quantity without a direction: a value agrees within a quarter of the paper's value.
    Level(f64),
    /// A bound: a value agrees if it is at most the bound.
    AtMost(f64),
    /// A bound: a value agrees if it is at least the bound.
    AtLeast(f64),
    /// A direction without a size: a value below this value has the direction. No value agrees.
    Below(f64),
    /// A direction without a size: a value above this value has the direction. No value agrees.
    Above(f64),
}

/// A change from zero.
const fn change(paper: f64) -> Expected {
    Expected::Change { paper, without: 0.0 }
}

/// A factor, which is 1 without an effect.
const fn factor(paper: f64) -> Expected {
    Expected::Change { paper, without: 1.0 }
}

/// Joins lists of claims.
const fn joined<const N: usize>(lists: &[&[Claim]]) -> [Claim; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut filled) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[filled] = lists[list][at];
            (at, filled) = (at + 1, filled + 1);
        }
        list += 1;
    }
    assert!(filled == N);
    all
}

/// Agreement of a measured value with a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// The value has the paper's sign and lies within a quarter of the paper's effect; or a bound
    /// holds.
    Agrees,
    /// The value agrees because a drive's profile was fitted to the paper: nothing is tested.
    Fitted,
    /// The value agrees because of a definition of Bimetal: only Bimetal's arithmetic is tested.
    ByDefinition,
    /// The value has the paper's sign alone.
    DirectionOnly,
    /// The value does not have the sign of the paper's effect, or a bound is broken.
    DoesNot,
    /// The claim was measured, and a choice that the paper leaves open decides the verdict.
    Undecided,
    /// Nothing was measured.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agrees => "agrees",
            Self::Fitted => "agrees, fitted",
            Self::ByDefinition => "by definition",
            Self::DirectionOnly => "direction only",
            Self::DoesNot => "does not",
            Self::Undecided => "undecided",
            Self::NotRun => "not run",
        })
    }
}

/// Share of the paper's effect by which a value may differ and still agree.
const TOLERANCE: f64 = 0.25;

impl Expected {
    /// Returns the verdict on a measured value.
    pub fn verdict(self, ours: f64) -> Verdict {
        let (lowest, highest) = self.agreeing();
        match self {
            Self::Below(other) if ours < other => Verdict::DirectionOnly,
            Self::Above(other) if ours > other => Verdict::DirectionOnly,
            Self::Below(_) | Self::Above(_) => Verdict::DoesNot,
            _ if (lowest..=highest).contains(&ours) => Verdict::Agrees,
            Self::Change { paper, without } if (ours - without) * (paper - without) > 0.0 => Verdict::DirectionOnly,
            _ => Verdict::DoesNot,
        }
    }

    /// Returns the difference between a value and the paper's value. A value that keeps a bound, or
    /// that has the paper's direction, does not differ.
    pub fn difference(self, ours: f64) -> f64 {
        match self {
            Self::Change { paper, .. } | Self::Level(paper) => (ours - paper).abs(),
            Self::AtMost(bound) | Self::Below(bound) => (ours - bound).max(0.0),
            Self::AtLeast(bound) | Self::Above(bound) => (bound - ours).max(0.0),
        }
    }

    /// Returns true if the paper has a direction and no size of the effect.
    pub const fn is_direction(self) -> bool {
        matches!(self, Self::Below(_) | Self::Above(_))
    }

    /// Returns the lowest and the highest value that agree, or that have the paper's direction; for
    /// a bound and a direction, one of the two is missing.
    pub fn agreeing(self) -> (f64, f64) {
        let around = |paper: f64, effect: f64| (paper - TOLERANCE * effect.abs(), paper + TOLERANCE * effect.abs());
        match self {
            Self::Change { paper, without } => around(paper, paper - without),
            Self::Level(paper) => around(paper, paper),
            Self::AtMost(bound) | Self::Below(bound) => (f64::NEG_INFINITY, bound),
            Self::AtLeast(bound) | Self::Above(bound) => (bound, f64::INFINITY),
        }
    }

    /// Returns the paper's number.
    pub const fn number(self) -> f64 {
        match self {
            Self::Change { paper, .. } => paper,
            Self::Level(value)
            | Self::AtMost(value)
            | Self::AtLeast(value)
            | Self::Below(value)
            | Self::Above(value) => value,
        }
    }

    /// Returns the paper's value as text.
    pub fn text(self, unit: Unit) -> String {
        let number = unit.text(self.number());
        match self {
            Self::Change { .. } | Self::Level(_) => number,
            Self::AtMost(_) => format!("≤ {number}"),
            Self::AtLeast(_) => format!("≥ {number}"),
            Self::Below(_) => format!("< {number}"),
            Self::Above(_) => format!("> {number}"),
        }
    }
}

/// Unit of a claim's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A share, shown in per cent.
    Share,
    /// A change of a share or of an amount, shown in per cent with its sign.
    Difference,
    /// A factor.
    Times,
    /// Milliseconds.
    Milliseconds,
    /// Megabytes a second.
    MegabytesPerSecond,
    /// Benchmark score a dollar.
    ScorePerDollar,
    /// Number of erases.
    Erases,
    /// Number of pairs.
    Pairs,
    /// Seconds.
    Seconds,
    /// Megabytes, of 10⁶ bytes.
    Megabytes,
    /// Number of traces.
    Traces,
}

impl Unit {
    /// Returns the name of the unit in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Difference => "difference",
            Self::Times => "times",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "mb_per_s",
            Self::ScorePerDollar => "score_per_usd",
            Self::Erases => "erases",
            Self::Pairs => "pairs",
            Self::Seconds => "s",
            Self::Megabytes => "mb",
            Self::Traces => "traces",
        }
    }

    /// Returns a value with its unit as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{} %", short(value * 100.0)),
            // A change of nothing has no sign.
            Self::Difference if short(value * 100.0) == "0" => "0 %".to_owned(),
            Self::Difference => format!("{}{} %", if value < 0.0 { "−" } else { "+" }, short(value.abs() * 100.0)),
            Self::Times => format!("×{}", short(value)),
            Self::Milliseconds => format!("{} ms", short(value)),
            Self::MegabytesPerSecond => format!("{} MB/s", short(value)),
            Self::ScorePerDollar => format!("{} /$", short(value)),
            Self::Erases => short(value),
            Self::Pairs => format!("{} pairs", short(value)),
            Self::Seconds => format!("{} s", short(value)),
            Self::Megabytes => format!("{} MB", short(value)),
            Self::Traces if value == 1.0 => "1 trace".to_owned(),
            Self::Traces => format!("{} traces", short(value)),
        }
    }
}

/// Returns a number with about three digits.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// Workload that tests a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Shipped traces of desktops: browser, media-copy, package-install, source-tree.
    Desktops,
    /// Shipped traces of servers: office-server, pgbench, sqlite.
    Servers,
    /// All seven shipped traces that write.
    Shipped,
    /// The shipped trace of a program's start, with its map of files.
    ProgramStart,
    /// One shipped trace, by name.
    Recorded(&'static str),
    /// Requests generated from figures of the paper.
    Generated(&'static str),
    /// A public trace that is not shipped.
    Public(&'static str),
    /// Three public desktop traces that are not shipped.
    PublicDesktops,
    /// No trace exists, with the reason.
    None(&'static str),
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Desktops => f.write_str("4 shipped desktops"),
            Self::Servers => f.write_str("3 shipped servers"),
            Self::Shipped => f.write_str("7 shipped traces"),
            Self::ProgramStart => f.write_str("program-start"),
            Self::Recorded(name) => f.write_str(name),
            Self::Generated(of) => write!(f, "generated: {of}"),
            Self::Public(file) => f.write_str(file.split('.').next().unwrap_or(file)),
            Self::PublicDesktops => f.write_str("3 diskmon desktops"),
            Self::None(_) => f.write_str("–"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Claim> {
        Paper::ALL.into_iter().flat_map(|paper| paper.claims())
    }

    #[test]
    fn claims_have_unique_names_and_finite_values() {
        let names: BTreeSet<_> = all().map(|claim| claim.name).collect();
        assert_eq!(names.len(), all().count());
        for claim in all() {
            assert!(claim.expected.number().is_finite() && !claim.place.is_empty(), "{claim:?}");
            let wanted = if claim.expected.is_direction() { Verdict::DoesNot } else { Verdict::Agrees };
            assert_eq!(claim.expected.verdict(claim.expected.number()), wanted, "{claim:?}");
        }
    }

    /// Four rates of the Combo Drive agreed that had been put into the profiles before.
    #[test]
    fn claim_that_was_fitted_does_not_count_as_agreeing() {
        let claim = |name| all().find(|claim| claim.name == name).unwrap();
        for (name, _) in combo::FITTED.into_iter().chain(griffin::FITTED) {
            let claim = claim(name);
            assert_eq!(claim.verdict(claim.expected.number()), Verdict::Fitted);
            assert_eq!(claim.verdict(claim.expected.number() / 2.0), Verdict::DoesNot);
        }
        assert_eq!(claim("combo-access").verdict(18.0), Verdict::Agrees);
        let fitted = combo::FITTED.len() + griffin::FITTED.len();
        assert_eq!(all().filter(|claim| claim.fitted().is_some()).count(), fitted);
    }

    /// Claims agreed that compare Bimetal's simulator with Bimetal's analysis.
    #[test]
    fn claim_that_follows_from_a_definition_does_not_count() {
        let defined = || griffin::DEFINED.into_iter().chain(managers::DEFINED);
        for (name, definition) in defined() {
            let claim = all().find(|claim| claim.name == name).unwrap();
            assert_eq!(claim.verdict(claim.expected.number()), Verdict::ByDefinition);
            assert!([-1.0, 1e9].iter().any(|ours| claim.verdict(*ours) == Verdict::DoesNot), "{name}");
            assert_eq!(claim.definition(), Some(definition));
        }
        assert_eq!(all().filter(|claim| claim.definition().is_some()).count(), defined().count());
    }

    /// The paper says that a latency is better, and gives no number. A latency without any effect
    /// agreed.
    #[test]
    fn direction_without_a_size_never_agrees() {
        let (below, above) = (Expected::Below(1.0), Expected::Above(1.0));
        let verdicts = |ours| [below.verdict(ours), above.verdict(ours)];
        assert_eq!(verdicts(0.5), [Verdict::DirectionOnly, Verdict::DoesNot]);
        assert_eq!(verdicts(1.0), [Verdict::DoesNot; 2], "no effect");
        assert_eq!(verdicts(2.0), [Verdict::DoesNot, Verdict::DirectionOnly]);
        assert_eq!([below, above].map(|expected| expected.text(Unit::Times)), ["< ×1", "> ×1"]);
    }

    #[test]
    fn difference_counts_from_the_number_or_the_broken_bound() {
        let differs = |expected: Expected, [low, high]: [f64; 2]| [expected.difference(low), expected.difference(high)];
        assert_eq!(differs(Expected::Level(2.0), [1.0, 5.0]), [1.0, 3.0]);
        assert_eq!(differs(factor(2.0), [1.0, 5.0]), [1.0, 3.0]);
        for bound in [Expected::AtMost(2.0), Expected::Below(2.0)] {
            assert_eq!(differs(bound, [1.0, 5.0]), [0.0, 3.0]);
        }
        for bound in [Expected::AtLeast(2.0), Expected::Above(2.0)] {
            assert_eq!(differs(bound, [1.0, 5.0]), [1.0, 0.0]);
        }
    }

    #[test]
    fn verdict_follows_from_sign_and_distance() {
        let saved = change(-0.56);
        assert_eq!(saved.verdict(-0.43), Verdict::Agrees);
        assert_eq!(saved.verdict(-0.41), Verdict::DirectionOnly);
        assert_eq!(saved.verdict(-0.71), Verdict::DirectionOnly, "far more than the paper's effect");
        assert_eq!(saved.verdict(0.0), Verdict::DoesNot);
        assert_eq!(factor(2.0).verdict(1.8), Verdict::Agrees);
        assert_eq!(factor(2.0).verdict(1.1), Verdict::DirectionOnly);
        assert_eq!(factor(2.0).verdict(0.9), Verdict::DoesNot);
        assert_eq!(Expected::Level(0.5).verdict(0.3), Verdict::DoesNot, "a level has no direction");
        assert_eq!(Expected::AtMost(0.01).verdict(0.011), Verdict::DoesNot);
        assert_eq!(Expected::AtLeast(0.8).verdict(0.8), Verdict::Agrees);
    }

    #[test]
    fn values_are_printed_with_three_digits_and_their_unit() {
        assert_eq!(Unit::Share.text(0.4858), "48.6 %");
        assert_eq!(Unit::Difference.text(-0.56), "−56 %");
        assert_eq!(Unit::Difference.text(0.0), "0 %");
        assert_eq!(Unit::Times.text(1.0), "×1");
        assert_eq!(Unit::Milliseconds.text(0.0449), "0.04 ms");
        assert_eq!(Expected::AtMost(0.01).text(Unit::Share), "≤ 1 %");
    }
}
