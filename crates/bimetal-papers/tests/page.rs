//! `docs/papers.md` against the experiments: every row that can be measured in a test, and so every
//! verdict, is as the page says.
//!
//! `BIMETAL_PAPERS=overwrite` writes the tables anew. Rows of public traces stay as they are where
//! `../shared/traces` is not present. Rows of the training of the planner's regression stay as they
//! are, because the training takes minutes: `BIMETAL_PAPERS=trained` compares these rows too, and
//! `BIMETAL_PAPERS=train` writes them.

use std::path::{Path, PathBuf};

use bimetal_papers::claims::{Paper, Verdict, Workload};
use bimetal_papers::experiments::{Answer, Effort, NEEDS_TRAINING, answers};
use bimetal_papers::mixcp::Cache;
use bimetal_papers::table::{beginning, markdown, row};
use bimetal_papers::traces::Traces;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn page() -> PathBuf {
    root().join("docs/papers.md")
}

/// Returns the beginning and the end of a paper's table in the page.
fn table_of(page: &str, paper: Paper) -> (usize, usize) {
    let mark = format!("<!-- claims of {} -->\n", paper.name());
    let start = page.find(&mark).unwrap_or_else(|| panic!("docs/papers.md has no '{}'", mark.trim())) + mark.len();
    let end = page[start..].find("<!-- end -->").expect("the table has an end") + start;
    (start, end)
}

/// Returns true if the claim could be measured, but not in this test. A recording that the project
/// does not have is missing everywhere, so its row is compared.
fn is_skipped(answer: &Answer) -> bool {
    let reason = answer.mechanism.as_deref().unwrap_or_default();
    let needs_something = reason.starts_with("needs ") && !reason.starts_with("needs the recording ");
    answer.verdict == Verdict::NotRun && !matches!(answer.claim.workload, Workload::None(_)) && needs_something
}

/// Returns the row of a claim; the row of the page, if the claim was skipped.
fn row_or_old(answer: &Answer, table: &str) -> String {
    if !is_skipped(answer) {
        return row(answer);
    }
    let reason = answer.mechanism.as_deref().unwrap_or_default();
    let word = if reason == NEEDS_TRAINING { "as before" } else { "skipped: no ../shared/traces" };
    eprintln!("{word}: {} {reason}", answer.claim.name);
    let workload = format!("| {} |", answer.claim.workload);
    let old = table.lines().find(|line| line.starts_with(&beginning(answer)) && line.contains(&workload));
    old.map_or_else(|| row(answer), |line| format!("{line}\n"))
}

#[test]
fn page_has_the_measured_value_and_verdict_of_each_claim() {
    let wanted = std::env::var("BIMETAL_PAPERS").unwrap_or_default();
    let trains = ["train", "trained"].contains(&wanted.as_str());
    let effort = if trains { Effort::Full } else { Effort::WithoutTraining };
    let traces = Traces { folder: Some(root().join("../shared/traces")) };
    let all = answers(&Paper::ALL, &traces, effort, &Cache::default(), &|_| {}).unwrap();
    assert!(all.iter().filter(|answer| !is_skipped(answer)).count() > 40);
    let mut text = std::fs::read_to_string(page()).unwrap();
    let writes = ["overwrite", "train"].contains(&wanted.as_str());
    for paper in Paper::ALL {
        let (start, end) = table_of(&text, paper);
        let of_paper = all.iter().filter(|answer| answer.paper == paper);
        let rows: Vec<String> = of_paper.map(|answer| row_or_old(answer, &text[start..end])).collect();
        assert_eq!(rows.len(), paper.claims().len());
        let table = markdown(&rows);
        if writes {
            text.replace_range(start..end, &table);
        } else {
            assert_eq!(&text[start..end], table, "docs/papers.md (BIMETAL_PAPERS=overwrite writes it)");
        }
    }
    if writes {
        std::fs::write(page(), text).unwrap();
    }
}
