//! Drives on sale: the sizes of each model, with their prices.
//!
//! A model that the market does not list is sold at its profile's own capacity, at the profile's
//! price.

use bimetal_core::layout::Role;
use bimetal_core::units::{Bytes, Sectors};
use bimetal_models::profile::{DEFAULT_HDD, DEFAULT_SSD, Price, Profile};

/// Difference between a nominal size and a drive's own capacity, as a share: makers sell 1,000.2 GB
/// as 1 TB.
const NOMINAL_SHARE: f64 = 0.01;

/// Drive on sale.
#[derive(Clone, Debug, PartialEq)]
pub struct OnSale {
    /// Model, by the name that `--ssd` and `--hdd` take.
    pub model: String,
    /// Nominal size.
    pub size: Bytes,
    /// Price of the whole drive.
    pub price: Price,
    /// Profile of the model in this size; `None` if the profile of the model describes all sizes.
    pub profile: Option<String>,
}

/// All drives on sale.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// Drives, in any order.
    pub drives: Vec<OnSale>,
    /// Model of an SSD for which no model is named.
    pub default_ssd: &'static str,
    /// Models of an HDD among which the price decides, if no model is named.
    pub default_hdds: &'static [&'static str],
}

impl Default for Market {
    fn default() -> Self {
        Self { drives: Vec::new(), default_ssd: DEFAULT_SSD, default_hdds: &[DEFAULT_HDD] }
    }
}

/// Purchase of one drive, or of several equal drives that are used as one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Purchase {
    /// Number of drives.
    pub count: u64,
    /// Size of each drive.
    pub each: Sectors,
    /// Price of all drives; `None` if no price is known.
    pub price: Option<Price>,
    /// Profile of a drive in this size, if it is another than the profile of the model.
    pub profile: Option<String>,
}

impl Purchase {
    /// Returns the size of all drives together.
    pub fn size(&self) -> Sectors {
        Sectors(self.each.0.saturating_mul(self.count))
    }
}

impl Market {
    /// Returns the model of a drive of `role` for which no model is named: of HDDs, the cheapest
    /// with at least `least` sectors, and of equal prices the first.
    pub fn default_model(&self, role: Role, least: Sectors) -> &'static str {
        if role == Role::Ssd {
            return self.default_ssd;
        }
        let usd = |model: &&str| {
            let profile = Profile::load(model).ok();
            let price = profile.and_then(|profile| self.smallest(model, &profile, least).price);
            price.map_or(f64::INFINITY, |price| price.usd)
        };
        let cheapest = self.default_hdds.iter().copied().min_by(|one, other| usd(one).total_cmp(&usd(other)));
        cheapest.unwrap_or(DEFAULT_HDD)
    }

    /// Returns the smallest drive of `model` on sale with at least `least` sectors. If no drive is
    /// large enough, returns several drives of one size: of the size with the lowest price of all
    /// drives, and of equal prices the largest size. `profile` describes the model.
    pub fn smallest(&self, model: &str, profile: &Profile, least: Sectors) -> Purchase {
        let mut sizes = self.sizes(model, profile);
        sizes.sort_by_key(|(size, ..)| *size);
        let together = |(size, price, _): &(Sectors, Option<Price>, Option<String>)| {
            let count = drives_for(least.bytes(), size.bytes());
            (price.as_ref().map_or(f64::INFINITY, |price| price.usd * count as f64), count)
        };
        let several = || {
            sizes.iter().min_by(|one, other| {
                let (one, other) = (together(one), together(other));
                one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
            })
        };
        let own = (profile.capacity, profile.price.clone(), None);
        let bought = sizes.iter().find(|(size, ..)| *size >= least).or_else(several);
        let (each, price, profile) = bought.cloned().unwrap_or(own);
        let count = drives_for(least.bytes(), each.bytes());
        let price = price.map(|price| Price { usd: price.usd * count as f64, ..price });
        Purchase { count, each, price, profile }
    }

    /// Returns true if a drive of `model` that is smaller than those on sale is a part of one. A
    /// built-in profile in a given size is a drive of this size, for experiments.
    pub(crate) fn has_parts(&self, model: &str) -> bool {
        let is_listed = self.drives.iter().any(|drive| drive.model == model);
        is_listed && Profile::builtin_names().all(|name| name != model)
    }

    /// Returns the sizes in which `model` is on sale, with their prices and profiles.
    fn sizes(&self, model: &str, profile: &Profile) -> Vec<(Sectors, Option<Price>, Option<String>)> {
        let own = profile.capacity;
        let exact = |nominal: Bytes| if is_nominal(nominal, own.bytes()) { own } else { nominal.sectors() };
        let drives = self.drives.iter().filter(|drive| drive.model == model);
        drives.map(|drive| (exact(drive.size), Some(drive.price.clone()), drive.profile.clone())).collect()
    }
}

/// Returns the number of equal drives of `size` that hold `least` bytes.
pub fn drives_for(least: Bytes, size: Bytes) -> u64 {
    least.0.div_ceil(size.0.max(1)).max(1)
}

/// Returns true if one of the sizes is the nominal size of a drive, and the other the drive's own
/// capacity. The difference is a share of `other`.
pub fn is_nominal(one: Bytes, other: Bytes) -> bool {
    one.0.abs_diff(other.0) as f64 <= NOMINAL_SHARE * other.0 as f64
}

/// Returns the price of a part of a drive of `size`: by the byte, at the price of the profile's own
/// size.
pub fn price_of_share(profile: &Profile, size: Sectors) -> Option<Price> {
    let price = profile.price.as_ref()?;
    Some(Price { usd: price.usd * size.0 as f64 / profile.capacity.0 as f64, ..price.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Profile {
        Profile::load(DEFAULT_HDD).expect("a built-in profile")
    }

    fn shop(sizes: &[(&str, f64)]) -> Market {
        let drive = |&(size, usd): &(&str, f64)| OnSale {
            model: DEFAULT_HDD.to_owned(),
            size: size.parse().expect("a size"),
            price: Price { usd, date: "2026".to_owned(), source: "shop".to_owned() },
            profile: None,
        };
        Market { drives: sizes.iter().map(drive).collect(), ..Market::default() }
    }

    fn bought(market: &Market, least: &str) -> (u64, u64, f64) {
        let least = least.parse::<Bytes>().expect("a size").sectors();
        let Purchase { count, each, price, .. } = market.smallest(DEFAULT_HDD, &disk(), least);
        (count, each.bytes().0, price.expect("a price").usd)
    }

    #[test]
    fn smallest_drive_that_is_large_enough_is_bought_whole() {
        let market = shop(&[("4TB", 120.0), ("1TB", 50.0), ("2TB", 70.0)]);
        let own = disk().capacity.bytes().0;
        assert_eq!(bought(&market, "10GB"), (1, own, 50.0), "the nominal 1 TB is the profile's own capacity");
        assert_eq!(bought(&market, &format!("{own}")), (1, own, 50.0));
        assert_eq!(bought(&market, "1100GB"), (1, 2_000_000_000_000, 70.0));
        assert_eq!(bought(&market, "9TB"), (5, 2_000_000_000_000, 350.0), "cheaper than three of 4 TB");
        assert_eq!(bought(&market, "12TB"), (3, 4_000_000_000_000, 360.0), "cheaper than six of 2 TB");
    }

    /// Regression: with 2 TB, `compare` bought a disk of 8 TB for $200, because its one default
    /// model has no smaller size, and `plan` bought another for $100.
    #[test]
    fn default_disk_is_the_cheapest_that_is_large_enough() {
        const OTHER: &str = "wd-caviar-blue-wd10ealx-1tb";
        let mut market = shop(&[("1TB", 50.0), ("2TB", 70.0)]);
        let of_other = |size: &str, usd| OnSale {
            model: OTHER.to_owned(),
            size: size.parse().expect("a size"),
            price: Price { usd, date: String::new(), source: String::new() },
            profile: None,
        };
        market.drives.extend([of_other("1500GB", 60.0), of_other("4TB", 200.0)]);
        market.default_hdds = &[DEFAULT_HDD, OTHER];
        let default = |least: &str| market.default_model(Role::Hdd, least.parse::<Bytes>().expect("a size").sectors());
        assert_eq!(default("10GB"), DEFAULT_HDD);
        assert_eq!(default("1200GB"), OTHER);
        assert_eq!(default("1800GB"), DEFAULT_HDD);
        assert_eq!(default("4TB"), DEFAULT_HDD, "two disks of 2 TB are cheaper than one of 4 TB");
        assert_eq!(market.default_model(Role::Ssd, Sectors(1)), DEFAULT_SSD);
    }

    #[test]
    fn unlisted_model_is_sold_at_its_own_capacity() {
        let (nothing, disk) = (Market::default(), disk());
        let (own, usd) = (disk.capacity.bytes().0, disk.price.expect("it has a price").usd);
        assert_eq!(bought(&nothing, "1GiB"), (1, own, usd));
        assert_eq!(bought(&nothing, "1500GB"), (2, own, 2.0 * usd));
        assert_eq!(bought(&shop(&[]), "1GiB"), (1, own, usd));
    }
}
