//! `bimetal reproduce PAPER` and `all`: the claims of the papers with the values that this program
//! measures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bimetal_papers::claims::Paper;
use bimetal_papers::experiments::{Answer, Effort, answers};
use bimetal_papers::figure::Figure;
use bimetal_papers::mixcp::Cache;
use bimetal_papers::table::counted;
use bimetal_papers::traces::Traces;
use serde::Serialize;

use super::chart::charts;
use super::figures::drawn;
use crate::error::Error;
use crate::progress::Stages;
use crate::report::escape::html as escaped;
use crate::sheet::{Cell, Sheet};

/// Columns of a line of the terminal.
const COLUMNS: usize = 100;

/// Columns before a claim and before its mechanism.
const INDENT: usize = 4;

/// Columns of the table of claims in a page.
const CLAIM_COLUMNS: usize = 6;

/// Answers to the claims of some papers.
pub(super) struct Answers(Vec<Answer>);

/// A claim in the document.
#[derive(Serialize)]
struct ClaimDocument<'a> {
    paper: &'static str,
    name: &'a str,
    place: &'a str,
    claim: &'a str,
    unit: &'static str,
    paper_value: f64,
    paper_text: String,
    ours: Option<f64>,
    trace: String,
    verdict: String,
    mechanism: Option<&'a str>,
}

/// The document of `--json`.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    claims: Vec<ClaimDocument<'a>>,
    /// Number of claims by verdict.
    verdicts: BTreeMap<String, u64>,
}

impl Answers {
    /// Measures the claims of `papers`.
    pub(super) fn of(papers: &[Paper], traces: &Traces, cache: &Cache) -> Result<Self, Error> {
        let bar = Stages::default();
        let show = |done| bar.show("papers", Some(papers.len() as u64), done);
        Ok(Self(answers(papers, traces, Effort::Full, cache, &show)?))
    }

    fn papers(&self) -> impl Iterator<Item = (Paper, Vec<&Answer>)> {
        let of = |paper| self.0.iter().filter(|answer| answer.paper == paper).collect::<Vec<_>>();
        Paper::ALL.into_iter().map(move |paper| (paper, of(paper))).filter(|(_, answers)| !answers.is_empty())
    }

    /// Returns the table as text. Writing to a string cannot fail.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (paper, answers) in self.papers() {
            let _ = writeln!(text, "{}: {}", paper.name(), paper.title());
            let _ = writeln!(text, "{:24} {:>11} {:>11}  {:14}  trace", "place", "paper", "ours", "verdict");
            for answer in &answers {
                let claim = answer.claim;
                let _ = writeln!(
                    text,
                    "{:24} {:>11} {:>11}  {:14}  {}",
                    claim.place,
                    claim.expected.text(claim.unit),
                    ours(answer),
                    answer.verdict,
                    claim.workload
                );
                text += &wrapped(claim.says, "");
                if let Some(mechanism) = &answer.mechanism {
                    text += &wrapped(mechanism, "→ ");
                }
            }
            let _ = writeln!(text, "{}\n", counted(answers.iter().copied()));
        }
        text
    }

    /// Returns a row for each claim.
    pub(super) fn sheet(&self) -> Sheet {
        let headings = ["paper", "place", "claim", "unit", "paper_value", "ours", "trace", "verdict", "mechanism"];
        let mut sheet = Sheet::new(headings);
        for ClaimDocument { paper, place, claim, unit, paper_value, ours, trace, verdict, mechanism, .. } in
            self.document().claims
        {
            let [paper, place, claim, unit] = [paper, place, claim, unit].map(Cell::from);
            let [trace, verdict] = [trace, verdict].map(Cell::from);
            let mechanism = mechanism.unwrap_or_default().into();
            sheet.push([paper, place, claim, unit, paper_value.into(), ours.into(), trace, verdict, mechanism]);
        }
        sheet
    }

    /// Returns the document of `--json`.
    pub(super) fn document(&self) -> Document<'_> {
        let mut verdicts = BTreeMap::new();
        for answer in &self.0 {
            *verdicts.entry(answer.verdict.to_string()).or_default() += 1;
        }
        let claims = self.0.iter().map(|answer| ClaimDocument {
            paper: answer.paper.name(),
            name: answer.claim.name,
            place: answer.claim.place,
            claim: answer.claim.says,
            unit: answer.claim.unit.name(),
            paper_value: answer.claim.expected.number(),
            paper_text: answer.claim.expected.text(answer.claim.unit),
            ours: answer.ours,
            trace: answer.claim.workload.to_string(),
            verdict: answer.verdict.to_string(),
            mechanism: answer.mechanism.as_deref(),
        });
        Document { claims: claims.collect(), verdicts }
    }

    /// Returns a section of a page for each paper, with the figures of this paper among `figures`.
    pub(super) fn sections(&self, figures: &[Figure]) -> String {
        let mut text = String::new();
        for (paper, answers) in self.papers() {
            let name = paper.name();
            let _ = write!(
                text,
                "<section aria-labelledby=\"{name}\"><h2 id=\"{name}\">{name}</h2>\n<p>{}. {}.</p>\n\
                 <table class=\"claims\"><thead><tr><th>claim</th><th>verdict</th><th>paper</th><th>ours</th>\
                 <th>place</th><th>trace</th></tr></thead>\n",
                escaped(paper.title()),
                escaped(&counted(answers.iter().copied()))
            );
            text.extend(answers.iter().map(|answer| claim_rows(answer)));
            text += "</table>\n";
            text += &charts(name, &answers);
            text += &drawn(&figures.iter().filter(|figure| figure.paper == paper).collect::<Vec<_>>());
            text += "</section>\n";
        }
        text
    }
}

/// Returns the row of a claim, and below it the row of its mechanism.
fn claim_rows(answer: &Answer) -> String {
    let claim = answer.claim;
    let cells = [
        ("verdict", answer.verdict.to_string()),
        ("paper", claim.expected.text(claim.unit)),
        ("ours", ours(answer)),
        ("place", claim.place.to_owned()),
        ("trace", claim.workload.to_string()),
    ];
    let cells = cells.map(|(name, cell)| format!("<td class=\"{name}\">{}</td>", escaped(&cell))).concat();
    let mechanism = answer.mechanism.as_deref().map_or_else(String::new, |mechanism| {
        format!("<tr class=\"mechanism\"><td colspan=\"{CLAIM_COLUMNS}\">{}</td></tr>", escaped(mechanism))
    });
    format!("<tbody><tr><th scope=\"row\">{}</th>{cells}</tr>{mechanism}</tbody>\n", escaped(claim.says))
}

fn ours(answer: &Answer) -> String {
    answer.ours.map_or_else(|| "–".to_owned(), |ours| answer.claim.unit.text(ours))
}

/// Returns `text` in lines of the terminal, indented, the first after `mark`.
pub(super) fn wrapped(text: &str, mark: &str) -> String {
    let room = COLUMNS - INDENT - mark.chars().count();
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line =
            lines.last_mut().filter(|line| line.is_empty() || line.chars().count() + 1 + word.chars().count() <= room);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    let blank = " ".repeat(mark.chars().count());
    let lines = lines
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{:INDENT$}{}{line}\n", "", if at == 0 { mark } else { &blank }));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mechanism was the last of seven columns, behind the edge of every screen.
    #[test]
    fn verdict_follows_the_claim_and_mechanism_has_a_row() {
        let claim = &Paper::Griffin.claims()[0];
        let answer = |mechanism: Option<&str>| Answer {
            paper: Paper::Griffin,
            claim,
            ours: Some(0.05),
            verdict: claim.verdict(0.05),
            mechanism: mechanism.map(str::to_owned),
        };
        let rows = claim_rows(&answer(Some("browser < 12 %")));
        assert!(rows.contains("servers</th><td class=\"verdict\">does not</td><td class=\"paper\">"), "{rows}");
        assert!(rows.contains("<tr class=\"mechanism\"><td colspan=\"6\">browser &lt; 12 %</td></tr>"), "{rows}");
        let first = rows.split("</tr>").next().unwrap();
        assert_eq!(first.matches("<th").count() + first.matches("<td").count(), CLAIM_COLUMNS);
        assert!(!claim_rows(&answer(None)).contains("mechanism"));
    }

    #[test]
    fn long_text_is_wrapped_and_indented() {
        let text = wrapped(&"word ".repeat(40), "→ ");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.starts_with("    → word") && text.lines().nth(1).unwrap().starts_with("      word"), "{text}");
        assert_eq!(wrapped("", ""), "    \n");
    }
}
