//! `bimetal reproduce combo-hdtune`: figures 5 and 6 of the Combo Drive paper.

use std::fmt::Write as _;

use bimetal_core::operation::OpKind;
use bimetal_papers::combo_hdtune::{Measured, SUBJECTS, Subject, measure};

use super::Shown;
use super::values::Value;
use crate::error::Error;
use crate::report::plot::{Axis, Mark, Series, svg};

/// Returns the averages with the paper's averages, and the charts.
pub(super) fn figures() -> Result<Shown, Error> {
    let mut shown = Shown::default();
    let _ = writeln!(
        shown.text,
        "{:12}  {:6}  {:>10}  {:>12}  {:>10}  {:>12}  {:>10}",
        "", "", "MB/s", "paper's text", "table 2", "access, ms", "table 2"
    );
    for subject in &SUBJECTS {
        for (kind, paper) in [OpKind::Read, OpKind::Write].into_iter().zip(subject.paper_mb_per_s) {
            let measured = measure(subject, kind, 1)?;
            let name = if kind == OpKind::Read { "read" } else { "write" };
            let or_dash = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string());
            let _ = writeln!(
                shown.text,
                "{:12}  {name:6}  {:>10.1}  {:>12}  {:>10}  {:>12.2}  {:>10}",
                subject.name,
                measured.mean_mb_per_s(),
                paper.0,
                or_dash(paper.1),
                measured.mean_access_ms(),
                or_dash(subject.paper_access_ms),
            );
            let (rate, access) = (format!("mean rate, {name}"), format!("mean access time, {name}"));
            let mean = measured.mean_mb_per_s();
            shown.values.push(Value::new("section 5.1", subject.name, &rate, "MB/s", Some(paper.0), mean));
            let access_ms = measured.mean_access_ms();
            shown.values.push(Value::new("table 2", subject.name, &access, "ms", subject.paper_access_ms, access_ms));
            shown.charts += &chart(subject, name, &measured);
        }
    }
    shown.text += "\nRates: on average over 100 positions, 64 KiB requests one at a time. Accesses: 4 KiB,\nthe disk's write \
                   cache off; distances count as often as random accesses have them. The paper calls the disk's\nfast \
                   edge the inner edge; physically the fast edge is the outer edge.\n";
    Ok(shown)
}

/// Returns a chart with rates as a line over the position, and access times as dots over the
/// distance.
fn chart(subject: &Subject, kind: &str, measured: &Measured) -> String {
    let part = if kind == "read" { "a" } else { "b" };
    let figure = subject.figure.map(|figure| format!(" – the paper's figure {figure}({part})")).unwrap_or_default();
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let percent = |points: &[(f64, f64)]| points.iter().map(|(part, value)| (part * 100.0, *value)).collect();
    let of_kind = if kind == "read" { OpKind::Read } else { OpKind::Write };
    let [mean, edge] = subject.paper_rates(of_kind);
    let series = [
        Series { colour: "c1", mark: Mark::DashedLine, points: percent(&mean), right: false },
        Series { colour: "c1", mark: Mark::Rings, points: percent(&edge), right: false },
        Series { colour: "c0", mark: Mark::Line, points: percent(&measured.rates), right: false },
        Series { colour: "c2", mark: Mark::Dots, points: percent(&measured.accesses), right: true },
    ];
    let (name, rate, access) = (subject.name, measured.mean_mb_per_s(), measured.mean_access_ms());
    let label = format!("{name}, {kind}: rate over position and access time over distance");
    let at_edge = if edge.is_empty() { "" } else { "; ring: its 69 MB/s at the fast edge of the disk (section 5.1)" };
    format!(
        "<figure><h3>{name}, {kind}{figure}</h3><figcaption><p><span class=\"scheme c0\">MB/s</span> over the position \
         (left, on average {rate:.1}; the paper: {}), <span class=\"scheme c2\">ms an access</span> over the distance \
         (right, on average over random places {access:.2}); both in per cent of the capacity. Dashed: the paper's \
         mean{at_edge}. Its text has no other point of the curves and dots.</p></figcaption>\n{}</figure>\n",
        subject.paper_mb_per_s[usize::from(kind != "read")].0,
        svg(
            &label,
            &Axis::linear("position, distance: % of the capacity", 100.0),
            &Axis::linear("MB/s", most(&measured.rates).max(most(&mean)).max(most(&edge))),
            Some(&Axis::linear("ms", most(&measured.accesses))),
            &series
        )
    )
}
