//! Fleet: many volumes with one budget. The answer says which volumes deserve flash, how much, and
//! which drives to buy.
//!
//! The options of each volume are the results of a sweep over its trace. The aim is the shortest
//! total wait of all volumes. The wait of a volume is the mean number of its requests that are
//! under way, by Little's law: mean response time × requests / duration. So a busy volume counts
//! more than a quiet volume. Results that differ only in their seed count as one option, whose wait
//! is the longest wait of these results.
//!
//! [`choose`](mod@choose) has the choice itself.

pub mod choose;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::budget::at;
use crate::sweep::store::{Plan, Results};
use choose::{Chosen, Weighed, choose};

/// Units of cost in a dollar: cents.
const COSTS_PER_USD: f64 = 100.0;
/// Units of wait for each request under way.
const WAITS_PER_REQUEST: f64 = 1e9;

/// Reasons for which there is no plan of a fleet: one message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FleetError(pub String);

/// Option of a volume: one result of the sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FleetOption {
    /// Scheme of the option.
    pub scheme: String,
    /// Settings of the scheme and its drives, and options of the job that do not choose drives.
    pub settings: BTreeMap<String, String>,
    /// Name of the SSD, or `None`.
    pub ssd: Option<String>,
    /// Size of the SSD.
    pub ssd_bytes: Option<u64>,
    /// Name of the HDD, or `None`.
    pub hdd: Option<String>,
    /// Size of the HDD.
    pub hdd_bytes: Option<u64>,
    /// Price of the drives.
    pub cost_usd: f64,
    /// Mean number of requests under way.
    pub requests_under_way: f64,
    /// Drives to buy: profile, bytes of one drive and number of drives.
    #[serde(skip)]
    bought: Vec<(String, u64, u64)>,
}

/// Options of `simulate` that describe the load of a volume and the state of its drives, and not
/// what is bought.
const OF_LOAD: [&str; 13] = [
    "align",
    "capacity",
    "compact",
    "event",
    "limit",
    "merge",
    "power-price",
    "precondition",
    "repeat",
    "replay",
    "speedup",
    "times",
    "warmup",
];

/// A volume: the path of its trace, and the device of the trace if one was chosen.
type VolumeKey = (String, Option<String>);

/// Volume with the option that was chosen for it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FleetVolume {
    /// Path of the volume's trace.
    pub trace: String,
    /// Device of the trace, or `None` for all devices.
    pub device: Option<String>,
    /// Mean number of requests under way with the cheapest option.
    pub requests_under_way_cheapest: f64,
    /// Option that was chosen.
    pub chosen: FleetOption,
}

/// Drives of one kind and size to buy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Purchase {
    /// Name of the drive.
    pub drive: String,
    /// Size of the drive.
    pub bytes: u64,
    /// Number of drives.
    pub count: u64,
}

/// Plan of a fleet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fleet {
    /// Money that all drives together may cost.
    pub budget_usd: f64,
    /// Cost of the choices.
    pub cost_usd: f64,
    /// Money that the cheapest option of each volume costs.
    pub cost_cheapest_usd: f64,
    /// Mean number of requests of all volumes that are under way.
    pub requests_under_way: f64,
    /// Mean number of requests under way with the cheapest option of each volume.
    pub requests_under_way_cheapest: f64,
    /// No plan within the budget has fewer requests under way than this bound. The bound equals
    /// `requests_under_way` if the plan is certainly the best.
    pub requests_under_way_min: f64,
    /// Drives to buy, by name and size.
    pub purchases: Vec<Purchase>,
    /// Volumes, sorted by the path of their trace.
    pub volumes: Vec<FleetVolume>,
}

/// Returns the plan of the fleet whose volumes are the traces of a sweep.
///
/// # Errors
/// A trace has no result or no times, or the budget is too small.
pub fn plan(results: &Results, plans: &[Plan], budget_usd: f64) -> Result<Fleet, FleetError> {
    let volumes = options_by_volume(results, plans)?;
    if volumes.is_empty() {
        return Err(FleetError("the sweep has no job: expected a result for each volume".to_owned()));
    }
    let weighed: Vec<Vec<Weighed>> = volumes.values().map(|options| options.iter().map(weighed).collect()).collect();
    let chosen = choose(&weighed, (budget_usd * COSTS_PER_USD).round() as u64).map_err(|least| {
        let (least, volumes) = (least as f64 / COSTS_PER_USD, volumes.len());
        FleetError(format!(
            "the budget of ${budget_usd} is too small: the cheapest option of each of the {volumes} volumes costs \
             ${least} in all"
        ))
    })?;
    Ok(answer(&volumes, &chosen, budget_usd))
}

fn weighed(option: &FleetOption) -> Weighed {
    let steps = |value: f64, steps: f64| (value * steps).round() as u64;
    Weighed { cost: steps(option.cost_usd, COSTS_PER_USD), wait: steps(option.requests_under_way, WAITS_PER_REQUEST) }
}

fn answer(volumes: &BTreeMap<VolumeKey, Vec<FleetOption>>, chosen: &Chosen, budget_usd: f64) -> Fleet {
    let cheapest = |options: &[FleetOption]| {
        options.iter().min_by_key(|option| (weighed(option).cost, weighed(option).wait)).cloned()
    };
    let (mut listed, mut purchases, mut cost_cheapest_usd) = (Vec::new(), BTreeMap::new(), 0.0);
    for (((trace, device), options), &at) in volumes.iter().zip(&chosen.options) {
        let (chosen, cheapest) = (options[at].clone(), cheapest(options));
        cost_cheapest_usd += cheapest.as_ref().map_or(0.0, |option| option.cost_usd);
        for (drive, bytes, count) in &chosen.bought {
            *purchases.entry((drive.clone(), *bytes)).or_insert(0) += count;
        }
        let requests_under_way_cheapest = cheapest.map_or(0.0, |option| option.requests_under_way);
        let (trace, device) = (trace.clone(), device.clone());
        listed.push(FleetVolume { trace, device, requests_under_way_cheapest, chosen });
    }
    Fleet {
        budget_usd,
        cost_usd: chosen.cost as f64 / COSTS_PER_USD,
        cost_cheapest_usd: (cost_cheapest_usd * COSTS_PER_USD).round() / COSTS_PER_USD,
        requests_under_way: chosen.wait as f64 / WAITS_PER_REQUEST,
        requests_under_way_cheapest: listed.iter().map(|volume| volume.requests_under_way_cheapest).sum(),
        requests_under_way_min: chosen.wait_min as f64 / WAITS_PER_REQUEST,
        purchases: purchases.into_iter().map(|((drive, bytes), count)| Purchase { drive, bytes, count }).collect(),
        volumes: listed,
    }
}

/// Returns the options of each volume.
fn options_by_volume(results: &Results, plans: &[Plan]) -> Result<BTreeMap<VolumeKey, Vec<FleetOption>>, FleetError> {
    let mut volumes: BTreeMap<VolumeKey, Vec<FleetOption>> = BTreeMap::new();
    let mut loads: BTreeMap<VolumeKey, Value> = BTreeMap::new();
    for job in plans.iter().flat_map(|plan| &plan.jobs) {
        let trace = job.trace.as_str();
        let Some(finished) = results.get(&job.key) else {
            return Err(FleetError(format!(
                "{trace}: job {} has no result yet: expected a sweep that is done; `bimetal sweep status` shows the rest",
                job.key
            )));
        };
        let device = at(&finished.value, "job.options.device").and_then(Value::as_str).map(str::to_owned);
        let volume = (trace.to_owned(), device);
        let options = volumes.entry(volume.clone()).or_default();
        if finished.error().is_some() || finished.left_out().is_some() {
            continue;
        }
        let load = load_of(&finished.value);
        let first = loads.entry(volume).or_insert_with(|| load.clone());
        if let Some(name) = OF_LOAD.iter().find(|name| first.get(**name) != load.get(**name)) {
            return Err(FleetError(format!(
                "{trace}: the sweep has several values of '{name}': expected one load for each volume"
            )));
        }
        let option = option_of(&finished.value).map_err(|message| FleetError(format!("{trace}: {message}")))?;
        let is_alike = |other: &&mut FleetOption| {
            FleetOption { requests_under_way: 0.0, ..(**other).clone() }
                == FleetOption { requests_under_way: 0.0, ..option.clone() }
        };
        match options.iter_mut().find(is_alike) {
            Some(alike) => alike.requests_under_way = alike.requests_under_way.max(option.requests_under_way),
            None => options.push(option),
        }
    }
    match volumes.iter().find(|(_, options)| options.is_empty()) {
        Some(((trace, _), _)) => Err(FleetError(format!(
            "{trace}: no job of the sweep has figures: expected one option at least; `bimetal sweep status` shows the reasons"
        ))),
        None => Ok(volumes),
    }
}

/// Returns the options of a job that describe the load.
fn load_of(result: &Value) -> Value {
    let options = at(result, "job.options").and_then(Value::as_object).into_iter().flatten();
    let of_load = options.filter(|(name, _)| OF_LOAD.contains(&name.as_str()));
    of_load.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn option_of(result: &Value) -> Result<FleetOption, String> {
    let figure = |path: &str| at(result, path).and_then(Value::as_f64);
    let text = |path: &str| at(result, path).and_then(Value::as_str).map(str::to_owned);
    let bytes = |path: &str| at(result, path).and_then(Value::as_u64);
    let needed = |path: &str| figure(path).ok_or_else(|| format!("a result has no '{path}'"));
    let requests = needed("trace.reads")? + needed("trace.writes")?;
    let speedup = text("job.options.speedup").and_then(|speedup| speedup.parse::<f64>().ok()).unwrap_or(1.0);
    let duration_s = needed("trace.duration_s")? / speedup;
    if text("job.options.replay").is_some_and(|replay| replay.starts_with("closed")) {
        return Err("a closed replay does not tell its load: expected the times of the trace".to_owned());
    }
    if duration_s <= 0.0 {
        return Err("the requests have no times, so its load is not known: expected a trace with times".to_owned());
    }
    let of = |path: &str| at(result, path).and_then(Value::as_object).into_iter().flatten();
    let plain = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let drives = ["seed", "ssd", "hdd", "ssd-size", "hdd-size"];
    let members = at(result, "run.members").and_then(Value::as_array).into_iter().flatten();
    let bought = members.map(|member| {
        let number = |key: &str| member.get(key).and_then(Value::as_u64);
        let count = number("drives").unwrap_or(1).max(1);
        let profile = member.get("profile").and_then(Value::as_str).ok_or("a result has a member without a profile")?;
        Ok((profile.to_owned(), number("bought_bytes").or_else(|| number("bytes")).unwrap_or_default() / count, count))
    });
    let bought = bought.collect::<Result<Vec<_>, String>>()?;
    let options = of("job.options").filter(|(name, _)| !drives.contains(&name.as_str()));
    Ok(FleetOption {
        scheme: text("run.scheme").unwrap_or_default(),
        settings: options.chain(of("job.set")).filter_map(plain).collect(),
        ssd: text("run.ssd"),
        ssd_bytes: bytes("run.ssd_bytes"),
        hdd: text("run.hdd"),
        hdd_bytes: bytes("run.hdd_bytes"),
        cost_usd: needed("run.cost.total_usd")?,
        requests_under_way: needed("run.response_time_ms.all.mean")? / 1e3 * requests / duration_s,
        bought,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sweep::shard::Shard;
    use crate::sweep::store::{Finished, PlannedJob};

    /// Result of a job of a scheme: size of the SSD in GiB, seed, price, mean response time.
    /// Two disks are used as one.
    fn result(scheme: &str, gib: Option<u64>, seed: u64, usd: f64, mean_ms: f64) -> Value {
        let ssd = gib.map(|gib| json!({"profile": "a", "bytes": gib << 30, "drives": 1}));
        let hdd = json!({"profile": "d", "bytes": 1_u64 << 40, "drives": 2});
        let members: Vec<Value> = ssd.into_iter().chain([hdd]).collect();
        json!({
            "job": {"options": {"seed": seed.to_string()}, "set": {}},
            "trace": {"reads": 900, "writes": 100, "duration_s": 10.0},
            "run": {
                "scheme": scheme, "ssd": gib.map(|_| "a"), "ssd_bytes": gib.map(|gib| gib << 30),
                "hdd": "d", "hdd_bytes": 1_u64 << 40, "members": members,
                "cost": {"total_usd": usd}, "response_time_ms": {"all": {"mean": mean_ms}},
            },
        })
    }

    fn planned(jobs: &[(&str, Value)], budget: f64) -> Result<Fleet, FleetError> {
        let (engine, grid, name) = ("e".to_owned(), "g".to_owned(), "grid.toml".to_owned());
        let mut plan = Plan::new(engine, grid, name, Shard::ALL, jobs.len());
        let mut results = Results::new();
        for (number, (trace, value)) in jobs.iter().enumerate() {
            let key = number.to_string();
            plan.jobs.push(PlannedJob { number, trace: (*trace).to_owned(), key: key.clone() });
            if !value.is_null() {
                results.insert(key, Finished { line: String::new(), value: value.clone() });
            }
        }
        super::plan(&results, &[plan], budget)
    }

    fn two_volumes() -> Vec<(&'static str, Value)> {
        vec![
            ("busy", result("hdd-only", None, 1, 80.0, 20.0)),
            ("busy", result("griffin", Some(8), 1, 100.0, 4.0)),
            ("busy", result("griffin", Some(8), 2, 100.0, 5.0)),
            ("quiet", result("hdd-only", None, 1, 80.0, 2.0)),
            ("quiet", result("griffin", Some(8), 1, 100.0, 1.0)),
        ]
    }

    #[test]
    fn flash_goes_where_it_saves_the_most_waiting() {
        let fleet = planned(&two_volumes(), 185.0).expect("a plan");
        let chosen: Vec<&str> = fleet.volumes.iter().map(|volume| volume.chosen.scheme.as_str()).collect();
        assert_eq!(chosen, ["griffin", "hdd-only"]);
        // 100 requests/s of 5 ms, by the worse of the two seeds, and 100 of 2 ms.
        assert_eq!((fleet.cost_usd, fleet.requests_under_way, fleet.requests_under_way_min), (180.0, 0.7, 0.7));
        assert_eq!((fleet.cost_cheapest_usd, fleet.requests_under_way_cheapest), (160.0, 2.2));
        let bought: Vec<_> = fleet.purchases.iter().map(|drives| (drives.drive.as_str(), drives.count)).collect();
        assert_eq!(bought, [("a", 1), ("d", 4)]);
        assert_eq!(fleet.purchases[1].bytes, 1 << 39, "the size of one drive");
    }

    /// Regression: a load at ten times the speed had a tenth of its requests under way.
    #[test]
    fn load_has_the_speed_at_which_it_was_played() {
        let mut fast = result("hdd-only", None, 1, 80.0, 20.0);
        fast["job"]["options"]["speedup"] = json!("10");
        let fleet = planned(&[("fast", fast.clone())], 100.0).expect("a plan");
        assert_eq!(fleet.requests_under_way, 20.0);
        fast["job"]["options"]["replay"] = json!("closed:4");
        let message = planned(&[("fast", fast)], 100.0).expect_err("no load").to_string();
        assert!(message.contains("closed replay"), "{message}");
    }

    /// Regression: the devices of one trace were options of one volume, and so were loads. The plan
    /// chose the quiet device, or the slow load.
    #[test]
    fn devices_are_volumes_and_loads_are_no_options() {
        let with = |option: &str, value: &str, mean_ms| {
            let mut result = result("hdd-only", None, 1, 80.0, mean_ms);
            result["job"]["options"][option] = json!(value);
            result
        };
        let fleet =
            planned(&[("t", with("device", "0", 20.0)), ("t", with("device", "1", 2.0))], 200.0).expect("a plan");
        let devices: Vec<_> = fleet.volumes.iter().map(|volume| volume.device.as_deref()).collect();
        assert_eq!((devices, fleet.cost_usd), (vec![Some("0"), Some("1")], 160.0));
        for (option, one, other) in [("speedup", "1", "10"), ("precondition", "clean", "random")] {
            let jobs = [("t", with(option, one, 20.0)), ("t", with(option, other, 2.0))];
            let message = planned(&jobs, 200.0).expect_err("two loads").to_string();
            assert!(message.contains(&format!("several values of '{option}': expected one load")), "{message}");
        }
    }

    #[test]
    fn fleet_without_an_answer_is_refused_with_the_reason() {
        let refused = |jobs: &[(&str, Value)], budget| planned(jobs, budget).expect_err("no plan").to_string();
        let message = refused(&two_volumes(), 159.0);
        assert!(message.contains("the 2 volumes costs $160 in all"), "{message}");
        assert!(refused(&[("a", Value::Null)], 1e6).starts_with("a: job 0 has no result yet: expected a sweep"));
        let failed = json!({"error": "the drive is too small"});
        assert!(refused(&[("a", failed)], 1e6).starts_with("a: no job of the sweep has figures: expected one option"));
        let mut closed = result("hdd-only", None, 1, 80.0, 20.0);
        closed["trace"]["duration_s"] = json!(0.0);
        assert!(refused(&[("a", closed)], 1e6).starts_with("a: the requests have no times"));
        assert!(refused(&[], 1e6).starts_with("the sweep has no job"));
    }
}
