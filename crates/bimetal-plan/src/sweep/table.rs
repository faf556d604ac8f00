//! Table: a row for each job, with its options and its main figures, for spreadsheets.

use std::collections::BTreeSet;

use bimetal_sim::csv::line;
use serde_json::Value;

use crate::budget;

/// Figures of a row, as dotted paths into the run of a result.
const FIGURES: [&str; 25] = [
    "ssd_bytes",
    "hdd_bytes",
    "exported_bytes",
    "response_time_ms.all.mean",
    "response_time_ms.all.p50",
    "response_time_ms.all.p99",
    "response_time_ms.all.p999",
    "response_time_ms.all.max",
    "response_time_ms.read.mean",
    "response_time_ms.read.p99",
    "response_time_ms.write.mean",
    "response_time_ms.write.p99",
    "throughput.iops",
    "throughput.mb_per_s",
    "behind_fraction",
    "ssd_hit_ratio.read",
    "ssd_hit_ratio.write",
    "write_savings",
    "devices.ssd.write_bytes",
    "devices.ssd.flash.write_amplification",
    "devices.ssd.flash.erases",
    "devices.ssd.flash.lifetime_years",
    "devices.ssd.energy_j",
    "devices.hdd.energy_j",
    "cost.total_usd",
];

/// Returns the table of results, as CSV with a heading. A row has the key, the traces and the
/// result.
pub fn csv<'a>(rows: impl Iterator<Item = (&'a String, &'a BTreeSet<&'a str>, &'a Value)> + Clone) -> String {
    let names = |of: &str| -> BTreeSet<&'a str> {
        let keys =
            |result: &'a Value| result.pointer(of).and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
        rows.clone().flat_map(|(_, _, result)| keys(result)).map(String::as_str).collect()
    };
    let (options, settings) = (names("/job/options"), names("/job/set"));
    let mut text = line(
        ["key", "engine", "traces", "trace_digest", "scheme"]
            .into_iter()
            .map(str::to_owned)
            .chain(options.iter().map(|name| (*name).to_owned()))
            .chain(settings.iter().map(|name| format!("set.{name}")))
            .chain(["requests".to_owned()])
            .chain(FIGURES.map(str::to_owned))
            .chain(["left_out".to_owned(), "error".to_owned()]),
    );
    for (key, traces, result) in rows {
        let traces = traces.iter().copied().collect::<Vec<_>>().join(" ");
        let at = |path: &[&str]| cell(path.iter().try_fold(result, |value, name| value.get(name)));
        let figure = |path: &&str| cell(result.get("run").and_then(|run| budget::at(run, path)));
        text += &line(
            [key.clone(), at(&["engine"]), traces, at(&["job", "trace"]), at(&["job", "scheme"])]
                .into_iter()
                .chain(options.iter().map(|name| at(&["job", "options", name])))
                .chain(settings.iter().map(|name| at(&["job", "set", name])))
                .chain([at(&["trace", "requests"])])
                .chain(FIGURES.iter().map(figure))
                .chain([at(&["left_out"]), at(&["error"])]),
        );
    }
    text
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_sim::results::Run;

    #[test]
    fn row_has_options_settings_figures_and_errors() {
        let done = serde_json::json!({
            "engine": "0.1.0-e", "job": {"scheme": "griffin", "trace": "d1", "options": {"seed": "1"}, "set": {"timeout": "60s"}},
            "trace": {"requests": 7}, "run": {"response_time_ms": {"all": {"mean": 0.5}}}, "error": null,
        });
        let failed =
            serde_json::json!({"job": {"scheme": "smq", "options": {"ssd-size": "10%"}}, "error": "a \"b\", c"});
        let (one, other) = ("k1".to_owned(), "k2".to_owned());
        let traces = BTreeSet::from(["a", "b"]);
        let text = csv([(&one, &traces, &done), (&other, &traces, &failed)].into_iter());
        let rows: Vec<&str> = text.lines().collect();
        assert!(
            rows[0].starts_with("key,engine,traces,trace_digest,scheme,seed,ssd-size,set.timeout,requests,"),
            "{text}"
        );
        assert!(rows[1].starts_with("k1,0.1.0-e,a b,d1,griffin,1,,60s,7,,,,0.5,,"), "{text}");
        assert!(rows[2].starts_with("k2,,a b,,smq,,10%,,") && rows[2].ends_with(",\"a \"\"b\"\", c\""), "{text}");
        assert_eq!(rows[0].split(',').count(), rows[1].split(',').count());
    }

    /// A figure that is renamed in the document would leave an empty column.
    #[test]
    fn each_figure_of_the_table_is_a_key_of_a_run() {
        let run = serde_json::to_value(Run::default()).expect("JSON");
        for path in FIGURES {
            assert!(budget::at(&run, path).is_some(), "{path}");
        }
    }
}
