//! The grid of options: every scheme with every drive for sale in every size, and several values of
//! its main parameter.
//!
//! Schemes come from the registry of `bimetal-core`. By convention, a scheme's first parameter is
//! its main parameter. The grid varies this parameter unless the user sets the parameter. Other
//! parameters vary only if the user gives values for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bimetal_core::layout::Role;
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::settings::{Kind as ParameterKind, Parameter};
use bimetal_core::units::{Bytes, Nanoseconds};
use bimetal_sim::market::Market;
use bimetal_sim::setup::{Choices, DriveChoice, Size};

use crate::catalogue::{Kind, Offer};

/// Divisor and factor for numeric parameters, which are also tried at a fourth of their default and
/// at four times their default.
const STEP: u64 = 4;

/// An option: a scheme with drives and settings.
#[derive(Clone)]
pub struct Candidate {
    /// Number of the option in the grid.
    pub index: usize,
    /// Number of the option's settings among those of its scheme; 0 stands for the defaults.
    pub variant: usize,
    /// Scheme of the option.
    pub scheme: &'static SchemeInfo,
    /// Drives, in the order of the scheme's members.
    pub drives: Vec<(Role, Offer)>,
    /// Parameters that are not at their defaults, including those set by the user. Names have no
    /// scheme prefix.
    pub settings: Vec<(String, String)>,
    /// Price of the drives and the controller in US dollars.
    pub cost_usd: f64,
}

impl Candidate {
    /// Returns the drive with this role.
    pub fn drive(&self, role: Role) -> Option<&Offer> {
        self.drives.iter().find(|(own, _)| *own == role).map(|(_, offer)| offer)
    }

    /// Returns the parameters of the scheme that every option has, with the values of this option.
    pub(crate) fn all_settings(&self) -> BTreeMap<String, String> {
        let defaults = self.scheme.parameters.iter().map(|known| (known.name.to_owned(), known.default.to_owned()));
        defaults.chain(self.settings.iter().cloned()).collect()
    }

    /// Returns true if several equal drives are bought and used as one.
    pub fn has_several_drives(&self) -> bool {
        self.drives.iter().any(|(_, offer)| offer.drives > 1)
    }

    /// Returns true if both options have the same scheme on the same drives: they differ in
    /// settings alone.
    pub fn builds_as(&self, other: &Self) -> bool {
        self.scheme.name == other.scheme.name && self.drives == other.drives
    }

    /// Returns the option with half the SSD; `None` without an SSD. Half the SSD has half the
    /// endurance and half the price, as if such a drive were on sale.
    pub(crate) fn with_half_the_ssd(&self) -> Option<Self> {
        let mut half = self.clone();
        let (_, ssd) = half.drives.iter_mut().find(|(role, _)| *role == Role::Ssd)?;
        (ssd.size.0, ssd.bought.0, ssd.usd) = (ssd.size.0 / 2, ssd.bought.0 / 2, ssd.usd / 2.0);
        half.cost_usd -= ssd.usd;
        Some(half)
    }

    /// Returns the drives of the option as the drives on sale. So several equal drives count by the
    /// number that is bought.
    fn market(&self) -> Market {
        Market { drives: self.drives.iter().map(|(_, offer)| offer.on_sale()).collect(), ..Market::default() }
    }

    /// Returns the option as `simulate` takes it, on top of the `common` choices.
    pub fn choices(&self, common: &Choices) -> Choices {
        let mut choices = common.clone();
        choices.market = Arc::new(self.market());
        for (role, offer) in &self.drives {
            let drive = DriveChoice { profile: Some(offer.model.clone()), size: Some(Size::Bytes(offer.size)) };
            match role {
                Role::Ssd => choices.ssd = drive,
                Role::Hdd => choices.hdd = drive,
                Role::Log => choices.members = vec![("log".to_owned(), drive)],
            }
        }
        let own = self.settings.iter().map(|(key, value)| (format!("{}.{key}", self.scheme.name), value.clone()));
        choices.settings.extend(own);
        choices
    }
}

/// Ingredients of the grid.
pub struct Grid<'a> {
    /// Schemes of the grid.
    pub schemes: &'a [&'static SchemeInfo],
    /// SSDs for sale.
    pub ssds: Vec<&'a Offer>,
    /// HDDs for sale.
    pub hdds: Vec<&'a Offer>,
    /// Equal drives that are used as one, where one must have every address.
    pub several: Vec<Offer>,
    /// Drives that may be chosen for a separate log. The list is empty if the log lies on the HDD.
    pub logs: Vec<&'a Offer>,
    /// Parameters that the user set and the grid does not vary. A key may begin with a scheme's
    /// name.
    pub set: &'a [(String, String)],
    /// Parameters that the user varies: a key, with or without a scheme's name in front, and its
    /// values.
    pub vary: &'a [(String, Vec<String>)],
    /// Price of the manager of each scheme in US dollars; 0 for a scheme that is not in this map.
    pub controller_usd: BTreeMap<&'static str, f64>,
}

impl Grid<'_> {
    /// Returns every option, scheme by scheme.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for &scheme in self.schemes {
            let settings = self.settings_of(scheme);
            for drives in self.drives_of(scheme) {
                let controller_usd = self.controller_usd.get(scheme.name).copied().unwrap_or(0.0);
                let cost_usd = controller_usd + drives.iter().map(|(_, offer)| offer.usd).sum::<f64>();
                // Rounding to cents gives equal prices equal sums in any order.
                let cost_usd = (cost_usd * 100.0).round() / 100.0;
                for (variant, settings) in settings.iter().enumerate() {
                    let (index, drives, settings) = (candidates.len(), drives.clone(), settings.clone());
                    candidates.push(Candidate { index, variant, scheme, drives, settings, cost_usd });
                }
            }
        }
        candidates
    }

    /// Returns every combination of drives for the members of a scheme.
    fn drives_of(&self, scheme: &SchemeInfo) -> Vec<Vec<(Role, Offer)>> {
        let mut combinations = vec![Vec::new()];
        for &(role, holds) in scheme.members {
            let (role, offers) = match role {
                _ if holds == Holds::Log && !self.logs.is_empty() => (Role::Log, &self.logs),
                Role::Ssd => (role, &self.ssds),
                Role::Hdd | Role::Log => (role, &self.hdds),
            };
            let homes = scheme.members.iter().filter(|(_, holds)| *holds == Holds::Home).count();
            let has_all = holds == Holds::Copy || (holds == Holds::Home && homes == 1);
            let kind = if role == Role::Ssd { Kind::Ssd } else { Kind::Hdd };
            let several = self.several.iter().filter(move |offer| has_all && offer.kind == kind);
            combinations = combinations
                .iter()
                .flat_map(|drives| {
                    offers.iter().copied().chain(several.clone()).map(move |offer| {
                        let mut drives: Vec<(Role, Offer)> = drives.clone();
                        drives.push((role, offer.clone()));
                        drives
                    })
                })
                .collect();
        }
        combinations
    }

    /// Returns every combination of the varied values, the defaults first. Each combination
    /// contains the parameters that the user set.
    fn settings_of(&self, scheme: &SchemeInfo) -> Vec<Vec<(String, String)>> {
        let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for (place, parameter) in scheme.parameters.iter().enumerate() {
            let names = |key: &str| names(key, scheme, parameter);
            let set = self.set.iter().rfind(|(key, _)| names(key));
            let values = match (self.vary.iter().rfind(|(key, _)| names(key)), set) {
                (Some((_, values)), _) => values.clone(),
                (None, Some((_, value))) => vec![value.clone()],
                (None, None) if place == 0 => values_of(parameter),
                (None, None) => continue,
            };
            combinations = combinations
                .iter()
                .flat_map(|settings| {
                    values.iter().map(move |value| {
                        let mut settings = settings.clone();
                        if value != parameter.default {
                            settings.push((parameter.name.to_owned(), value.clone()));
                        }
                        settings
                    })
                })
                .collect();
        }
        combinations
    }
}

/// Returns true if a key of `--set` or `--vary` names this parameter, with or without the scheme's
/// name in front.
pub(crate) fn names(key: &str, scheme: &SchemeInfo, parameter: &Parameter) -> bool {
    key == parameter.name || key.strip_prefix(scheme.name) == Some(&format!(".{}", parameter.name))
}

/// Returns the values at which the grid tries a parameter, its default first.
fn values_of(parameter: &Parameter) -> Vec<String> {
    let default = parameter.default.to_owned();
    let around = |smaller: String, larger: String| vec![default.clone(), smaller, larger];
    match parameter.kind {
        ParameterKind::Choice(words) => {
            let others = words.iter().filter(|word| **word != parameter.default).map(|word| (*word).to_owned());
            std::iter::once(default.clone()).chain(others).collect()
        }
        ParameterKind::Duration | ParameterKind::DurationOrOff => match default.parse::<Nanoseconds>() {
            Ok(value) if value.0 >= STEP => {
                around(Nanoseconds(value.0 / STEP).to_string(), Nanoseconds(value.0 * STEP).to_string())
            }
            _ => vec![default],
        },
        ParameterKind::Size | ParameterKind::SizeOrOff | ParameterKind::RateOrOff => match default.parse::<Bytes>() {
            Ok(value) if value.0 >= STEP => {
                around(Bytes(value.0 / STEP).to_string(), Bytes(value.0 * STEP).to_string())
            }
            _ => vec![default],
        },
        ParameterKind::Fraction | ParameterKind::FractionOrOff => match default.parse::<f64>() {
            Ok(value) if value > 0.0 => {
                around((value / STEP as f64).to_string(), (value * STEP as f64).min(1.0).to_string())
            }
            _ => vec![default],
        },
        ParameterKind::Admission | ParameterKind::RangesOrOff | ParameterKind::NumbersOrOff(_) => vec![default],
        ParameterKind::Count => match default.parse::<u64>() {
            Ok(value) if value >= STEP => around((value / STEP).to_string(), (value * STEP).to_string()),
            _ => vec![default],
        },
    }
}

#[cfg(test)]
impl<'a> Grid<'a> {
    /// Returns the grid of `schemes` with every drive of `catalogue`, without controllers.
    pub(crate) fn of(schemes: &'a [&'static SchemeInfo], catalogue: &'a crate::catalogue::Catalogue) -> Self {
        Self {
            schemes,
            ssds: catalogue.of_kind(Kind::Ssd),
            hdds: catalogue.of_kind(Kind::Hdd),
            several: Vec::new(),
            logs: Vec::new(),
            set: &[],
            vary: &[],
            controller_usd: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use bimetal_core::schemes;
    use bimetal_models::endurance::Endurance;

    fn grid<'a>(catalogue: &'a Catalogue, set: &'a [(String, String)], vary: &'a [(String, Vec<String>)]) -> Grid<'a> {
        let controller_usd = schemes::ALL.iter().map(|info| (info.name, 10.0)).collect();
        Grid { set, vary, controller_usd, ..Grid::of(schemes::ALL, catalogue) }
    }

    fn of<'a>(candidates: &'a [Candidate], scheme: &str) -> Vec<&'a Candidate> {
        candidates.iter().filter(|candidate| candidate.scheme.name == scheme).collect()
    }

    #[test]
    fn every_scheme_of_the_registry_gets_the_drives_that_it_needs() {
        let catalogue = Catalogue::of_profiles();
        let candidates = grid(&catalogue, &[], &[]).candidates();
        for info in schemes::ALL {
            assert!(!of(&candidates, info.name).is_empty(), "{}", info.name);
        }
        assert_eq!(of(&candidates, "hdd-only").len(), 2);
        assert_eq!(of(&candidates, "ssd-only").len(), 10);
        assert_eq!(of(&candidates, "hdd-only")[0].cost_usd, 90.0);
        assert!(candidates.iter().enumerate().all(|(index, candidate)| candidate.index == index));
    }

    /// Regression: half the SSD kept the flash and the warranty of the whole drive that was bought,
    /// so it seemed to last as long as the whole drive.
    #[test]
    fn half_the_ssd_has_half_the_endurance() {
        bimetal_models::profile::Profile::add_further(crate::drives::model::CATALOGUE);
        let common = Catalogue::common();
        let mut candidates = grid(&common, &[], &[]).candidates();
        candidates.retain(|candidate| candidate.scheme.name == "ssd-only" && !candidate.has_several_drives());
        let is_listed = |candidate: &&Candidate| candidate.drives[0].1.model == "wd-blue-sn5000-1tb";
        let whole = candidates.iter().find(is_listed).expect("it is on sale");
        let half = whole.with_half_the_ssd().unwrap();
        let endurance = |candidate: &Candidate| {
            let survey = bimetal_sim::survey::Survey { requests: 1, ..Default::default() };
            let choices = candidate.choices(&Choices::default());
            let setup = bimetal_sim::setup::Setup::new(candidate.scheme, &choices, &survey).unwrap();
            let drive = &setup.drives[0];
            let of = |size: Bytes| Endurance::of(&drive.profile, size.sectors()).unwrap().warranted.unwrap();
            (drive.size, of(drive.bought_size), drive.price.clone().unwrap().usd)
        };
        let ((all, lasts, costs), (part, lasts_half, costs_half)) = (endurance(whole), endurance(&half));
        assert_eq!((part.0, costs_half), (all.0 / 2, costs / 2.0));
        assert!((lasts_half / lasts - 0.5).abs() < 0.01, "{lasts_half} of {lasts} bytes");
        assert!((half.cost_usd - (whole.cost_usd - costs / 2.0)).abs() < 1e-9);
    }

    /// The first parameter of a scheme is varied unless it is set. Parameters beyond the first are
    /// varied on request.
    #[test]
    fn first_parameter_is_varied_unless_set() {
        let catalogue = Catalogue::of_profiles();
        let settings = |candidates: &[Candidate]| {
            let mut seen: Vec<String> = Vec::new();
            for candidate in of(candidates, "griffin") {
                let text = format!("{:?}", candidate.settings);
                if !seen.contains(&text) {
                    seen.push(text);
                }
            }
            seen
        };
        let all = settings(&grid(&catalogue, &[], &[]).candidates());
        assert_eq!(all, ["[]", "[(\"timeout\", \"225s\")]", "[(\"timeout\", \"3600s\")]"]);
        let set = [("griffin.timeout".to_owned(), "30s".to_owned())];
        assert_eq!(settings(&grid(&catalogue, &set, &[]).candidates()), ["[(\"timeout\", \"30s\")]"]);
        let vary = [("timeout".to_owned(), vec!["30s".to_owned()]), ("read_window".to_owned(), vec!["5".to_owned()])];
        let both = settings(&grid(&catalogue, &[], &vary).candidates());
        assert_eq!(both, ["[(\"timeout\", \"30s\"), (\"read_window\", \"5\")]"]);
    }
}
