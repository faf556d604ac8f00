//! `bimetal plan --fleet`: shares a budget among the volumes of a sweep.

use std::fmt::Write as _;
use std::path::Path;

use bimetal_core::units::Bytes;
use bimetal_measure::text::decimal;
use bimetal_plan::fleet::{Fleet, FleetOption, FleetVolume, plan};
use bimetal_plan::sweep::store::Store;

use crate::error::Error;
use crate::output::{json_text, print};
use crate::volume::size;

/// Number of volumes that are shown.
const VOLUMES_SHOWN: usize = 20;

fn planned(folder: &Path, budget_usd: Option<f64>) -> Result<Fleet, Error> {
    let budget_usd = budget_usd
        .ok_or_else(|| Error::new("--fleet: expected the money for all volumes beside it: --max-cost USD"))?;
    let store = Store::open(folder)?;
    let plan = plan(&store.results()?, &store.plans()?, budget_usd);
    plan.map_err(|error| Error::new(format!("{}: {error}", folder.display())))
}

/// Returns the plan for the sweep in `folder` as `--json` prints it.
///
/// # Errors
/// The folder has no complete sweep, or the budget is too small.
pub(crate) fn json(folder: &Path, budget_usd: Option<f64>) -> Result<String, Error> {
    json_text("fleet", &planned(folder, budget_usd)?)
}

/// Prints the plan of the sweep in `folder`.
///
/// # Errors
/// Returns the errors of [`json`].
pub(super) fn show(folder: &Path, budget_usd: Option<f64>, as_json: bool) -> Result<(), Error> {
    print(&if as_json { json(folder, budget_usd)? } else { text(&planned(folder, budget_usd)?) })
}

fn text(fleet: &Fleet) -> String {
    let Fleet { budget_usd, cost_usd, cost_cheapest_usd, volumes, .. } = fleet;
    let with_flash = volumes.iter().filter(|volume| volume.chosen.ssd.is_some()).count();
    let mut text = format!("fleet        {} volumes, {with_flash} with an SSD\n", volumes.len());
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "cost         ${cost_usd:.2} of ${budget_usd:.2}; the cheapest options ${cost_cheapest_usd:.2}");
    let (least, cheapest) = (fleet.requests_under_way_min, fleet.requests_under_way_cheapest);
    let best = if least == fleet.requests_under_way {
        "no plan has fewer".to_owned()
    } else {
        format!("no plan has fewer than {least:.4}")
    };
    let _ = writeln!(
        text,
        "under way    {:.4} requests on average, {best}; with the cheapest options {cheapest:.4}",
        fleet.requests_under_way
    );
    text += "\nto buy\n";
    for drives in &fleet.purchases {
        let _ = writeln!(text, "{:>8} x {} of {}", drives.count, drives.drive, decimal(drives.bytes));
    }
    text += "\nvolumes, those first that gain most\n   under way     before      cost  option\n";
    let mut ordered: Vec<&FleetVolume> = volumes.iter().collect();
    let gain = |volume: &FleetVolume| volume.requests_under_way_cheapest - volume.chosen.requests_under_way;
    ordered.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
    for FleetVolume { trace, device, requests_under_way_cheapest, chosen } in ordered.iter().take(VOLUMES_SHOWN) {
        let device = device.as_ref().map_or_else(String::new, |device| format!(" device {device}"));
        let _ = writeln!(
            text,
            "{:>12.4} {requests_under_way_cheapest:>10.4} {:>9.2}  {trace}{device}: {}",
            chosen.requests_under_way,
            chosen.cost_usd,
            described(chosen)
        );
    }
    if let Some(more) = volumes.len().checked_sub(VOLUMES_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more: --json has all");
    }
    text
}

/// Returns an option in words: scheme, settings and SSD.
fn described(option: &FleetOption) -> String {
    let settings: String = option.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let ssd = option.ssd.as_ref().zip(option.ssd_bytes);
    let ssd = ssd.map_or_else(String::new, |(name, bytes)| format!(", {name} of {}", size(Bytes(bytes))));
    format!("{}{settings}{ssd}", option.scheme)
}
