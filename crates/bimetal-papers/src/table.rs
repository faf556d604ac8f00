//! The table of claims as Markdown, for `docs/papers.md`.

use crate::claims::Verdict;
use crate::experiments::Answer;

/// Verdicts in the order in which they are counted, each with its words.
const COUNTED: [(Verdict, &str); 7] = [
    (Verdict::Agrees, "agree"),
    (Verdict::Fitted, "fitted"),
    (Verdict::ByDefinition, "by definition"),
    (Verdict::DirectionOnly, "in direction only"),
    (Verdict::DoesNot, "do not"),
    (Verdict::Undecided, "undecided"),
    (Verdict::NotRun, "not run"),
];

/// Returns the verdicts' counts as text: `3 agree, 2 in direction only, …`.
pub fn counted<'a>(answers: impl Iterator<Item = &'a Answer>) -> String {
    counts(&answers.map(|answer| answer.verdict.to_string()).collect::<Vec<_>>())
}

fn counts(verdicts: &[String]) -> String {
    let count = |verdict: Verdict| verdicts.iter().filter(|text| **text == verdict.to_string()).count();
    // Few papers have claims that test nothing.
    let tests_nothing = |verdict| [Verdict::Fitted, Verdict::ByDefinition].contains(&verdict);
    let counted = COUNTED.iter().filter(|(verdict, _)| !tests_nothing(*verdict) || count(*verdict) > 0);
    counted.map(|(verdict, words)| format!("{} {words}", count(*verdict))).collect::<Vec<_>>().join(", ")
}

/// Heads of the columns.
const HEAD: &str = "| claim | place | paper | ours | trace | verdict | mechanism |\n|---|---|---:|---:|---|---|---|\n";

/// Column of the verdict, before which a row has a border.
const VERDICT_COLUMN: usize = 6;

/// Returns the beginning of a claim's row, which no measurement changes.
pub fn beginning(answer: &Answer) -> String {
    let claim = answer.claim;
    format!("| {} | {} | {} | ", claim.says, claim.place, claim.expected.text(claim.unit))
}

/// Returns the row of a claim.
pub fn row(answer: &Answer) -> String {
    let Answer { claim, ours, verdict, mechanism, .. } = answer;
    let ours = ours.map_or_else(|| "–".to_owned(), |ours| claim.unit.text(ours));
    let mechanism = mechanism.as_deref().unwrap_or_default();
    format!("{}{ours} | {} | {verdict} | {mechanism} |\n", beginning(answer), claim.workload)
}

/// Returns the table of `rows`, with the counts of their verdicts above.
pub fn markdown(rows: &[String]) -> String {
    let verdict = |row: &String| row.split('|').nth(VERDICT_COLUMN).unwrap_or_default().trim().to_owned();
    let verdicts: Vec<String> = rows.iter().map(verdict).collect();
    format!("{}:\n\n{HEAD}{}", counts(&verdicts), rows.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_test_nothing_are_counted_apart() {
        let verdicts = |all: &[Verdict]| counts(&all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            verdicts(&[Verdict::Agrees, Verdict::Fitted, Verdict::Fitted]),
            "1 agree, 2 fitted, 0 in direction only, 0 do not, 0 undecided, 0 not run"
        );
        assert_eq!(
            verdicts(&[Verdict::Agrees, Verdict::ByDefinition]),
            "1 agree, 1 by definition, 0 in direction only, 0 do not, 0 undecided, 0 not run"
        );
        assert_eq!(verdicts(&[Verdict::DoesNot]), "0 agree, 0 in direction only, 1 do not, 0 undecided, 0 not run");
    }
}
