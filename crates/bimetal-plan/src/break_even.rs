//! Prices at which another way to build the volume would cost as much as the best option.
//!
//! There are three ways to build: with SSDs alone, with disks alone, and with both. For each other
//! way, the cheapest option that keeps the budgets is found. The price of one model of drive is
//! then varied until both options cost the same to buy. All other prices stay. Each sentence has
//! the best option as its subject.

use bimetal_measure::text::short;
use serde::Serialize;

use crate::answer::without_size;
use crate::catalogue::Kind;
use crate::grid::Candidate;

/// Price at which the best option and another option cost the same to buy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BreakEven {
    /// Model of drive whose price is varied.
    pub price_of: String,
    /// Price in US dollars for a GB (10^9 bytes) at which both options cost the same to buy.
    pub usd_per_gb: f64,
    /// Price in the catalogue, in the size of the option that has more of this model.
    pub usd_per_gb_today: f64,
    /// Name of the option with which the winner is compared.
    pub against: String,
    /// Scheme of the option that is cheaper while the model costs more than this price.
    pub wins_above: String,
    /// Scheme of the best option.
    pub best: String,
}

impl BreakEven {
    /// Returns the price as part of a sentence: `MODEL costs more than $0.09 a GB (catalogue:
    /// $0.12)`.
    fn clause(&self) -> String {
        let than = if self.wins_above == self.best { "more" } else { "less" };
        let (limit, today) = (short(cents(self.usd_per_gb)), short(cents(self.usd_per_gb_today)));
        format!("{} costs {than} than ${limit} a GB (catalogue: ${today})", self.price_of)
    }
}

/// Returns a sentence for each option that the best option is compared with: `against OPTION,
/// griffin is cheaper to buy while MODEL costs more than $0.09 a GB (catalogue: $0.12)`.
pub fn sentences(all: &[BreakEven]) -> Vec<String> {
    let same = |one: &BreakEven, other: &BreakEven| one.against == other.against;
    let sentence = |group: &[BreakEven]| {
        let clauses: Vec<String> = group.iter().map(BreakEven::clause).collect();
        let (against, best, clauses) = (&group[0].against, &group[0].best, clauses.join(", and while "));
        format!("against {against}, {best} is cheaper to buy while {clauses}")
    };
    all.chunk_by(same).map(sentence).collect()
}

/// Rounds a price to a hundredth of a cent.
fn cents(usd: f64) -> f64 {
    (usd * 1e4).round() / 1e4
}

/// Way to build a volume: with SSDs, and with disks.
pub(crate) fn way(candidate: &Candidate) -> (bool, bool) {
    let has = |kind| candidate.drives.iter().any(|(_, offer)| offer.kind == kind);
    (has(Kind::Ssd), has(Kind::Hdd))
}

/// Returns the prices of single models at which `best` and `other`, which has the text `name`, cost
/// the same. SSDs come first. All sizes of a model have one price a GB.
pub(crate) fn between(best: &Candidate, other: &Candidate, name: &str) -> Vec<BreakEven> {
    let mut models: Vec<(Kind, &str)> = Vec::new();
    for (_, offer) in other.drives.iter().chain(&best.drives) {
        let model = without_size(&offer.model);
        if models.iter().all(|(_, known)| *known != model) {
            models.push((offer.kind, model));
        }
    }
    models.sort_by_key(|(kind, _)| *kind == Kind::Hdd);
    models.into_iter().filter_map(|(_, model)| of_model(best, other, model, name)).collect()
}

fn of_model(best: &Candidate, other: &Candidate, model: &str, name: &str) -> Option<BreakEven> {
    // Gigabytes of the model, the price of the model, and the price of everything else.
    let split = |candidate: &Candidate| {
        let own = candidate.drives.iter().filter(|(_, offer)| without_size(&offer.model) == model);
        let (gb, usd) =
            own.fold((0.0, 0.0), |(gb, usd), (_, offer)| (gb + offer.bought.0 as f64 / 1e9, usd + offer.usd));
        (gb, usd, candidate.cost_usd - usd)
    };
    let ((best_gb, best_usd, best_rest), (other_gb, other_usd, other_rest)) = (split(best), split(other));
    let usd_per_gb = (best_rest - other_rest) / (other_gb - best_gb);
    let (more, most_gb, most_usd) = match other_gb > best_gb {
        true => (best, other_gb, other_usd),
        false => (other, best_gb, best_usd),
    };
    let possible = usd_per_gb.is_finite() && usd_per_gb > 0.0;
    possible.then(|| BreakEven {
        price_of: model.to_owned(),
        usd_per_gb,
        usd_per_gb_today: most_usd / most_gb,
        against: name.to_owned(),
        wins_above: more.scheme.name.to_owned(),
        best: best.scheme.name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::layout::Role;
    use bimetal_core::schemes;
    use bimetal_core::units::Bytes;

    use crate::catalogue::Offer;

    fn candidate(scheme: &str, drives: &[(Role, &str, u64, f64)]) -> Candidate {
        let offer = |&(role, model, gigabytes, usd): &(Role, &str, u64, f64)| {
            let kind = if role == Role::Ssd { Kind::Ssd } else { Kind::Hdd };
            let (date, source) = (String::new(), String::new());
            let size = Bytes(gigabytes * 1_000_000_000);
            (
                role,
                Offer { model: model.to_owned(), kind, size, bought: size, drives: 1, usd, date, source, cell: None },
            )
        };
        let drives: Vec<(Role, Offer)> = drives.iter().map(offer).collect();
        let cost_usd = drives.iter().map(|(_, offer)| offer.usd).sum();
        let scheme = schemes::find(scheme).unwrap();
        Candidate { index: 0, variant: 0, scheme, drives, settings: Vec::new(), cost_usd }
    }

    /// A hybrid of 100 GB flash and a disk for $50, against 1 TB of the same flash: 900 GB more
    /// flash cost as much as the disk at $50 / 900 GB.
    #[test]
    fn hybrid_breaks_even_where_more_flash_costs_as_much_as_a_disk() {
        let hybrid = candidate("bcache", &[(Role::Ssd, "tlc", 100, 20.0), (Role::Hdd, "disk", 4000, 50.0)]);
        let flash = candidate("ssd-only", &[(Role::Ssd, "tlc", 1000, 150.0)]);
        let found = between(&hybrid, &flash, "1 TB TLC");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].usd_per_gb - 50.0 / 900.0).abs() < 1e-9, "{found:?}");
        // The disk would have to cost $130.
        assert_eq!((found[1].price_of.as_str(), found[1].wins_above.as_str()), ("disk", "ssd-only"));
        assert!((found[1].usd_per_gb - 130.0 / 4000.0).abs() < 1e-9, "{found:?}");
        assert_eq!(
            sentences(&found),
            ["against 1 TB TLC, bcache is cheaper to buy while tlc costs more than $0.0556 a GB (catalogue: $0.15), \
              and while disk costs less than $0.0325 a GB (catalogue: $0.0125)"]
        );
        assert_eq!((way(&hybrid), way(&flash)), ((true, true), (true, false)));
    }

    /// An option that stays cheaper at any price of a model has no such price.
    #[test]
    fn no_break_even_where_one_option_always_wins() {
        let disk = candidate("hdd-only", &[(Role::Hdd, "disk", 4000, 50.0)]);
        let hybrid = candidate("bcache", &[(Role::Ssd, "tlc", 100, 20.0), (Role::Hdd, "disk", 4000, 50.0)]);
        assert_eq!(between(&disk, &hybrid, "it"), []);
    }
}
