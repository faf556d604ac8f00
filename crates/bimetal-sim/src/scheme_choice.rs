//! Scheme of an experiment, with settings of its own; two runs of one scheme differ in these
//! settings.

use std::borrow::Cow;
use std::fmt;

use bimetal_core::scheme::SchemeInfo;

use crate::setup::{Choices, SetupError, check_settings, controller_usd};

/// Scheme that is chosen for a run. A choice is displayed in the form of a list of schemes:
/// `griffin:timeout=30s`.
#[derive(Clone)]
pub struct SchemeChoice {
    /// Scheme of the run.
    pub scheme: &'static SchemeInfo,
    /// Settings of this run alone, by parameter, in the order given.
    settings: Vec<(String, String)>,
}

impl SchemeChoice {
    /// Returns the choice of `scheme` with settings that take precedence over the settings of
    /// [`Choices`].
    ///
    /// # Errors
    /// The scheme does not have a parameter of this name, or refuses a value.
    pub fn new(scheme: &'static SchemeInfo, settings: Vec<(String, String)>) -> Result<Self, SetupError> {
        let choice = Self { scheme, settings };
        let alone = Choices::default();
        let own = choice.applied(&alone);
        check_settings(scheme, &own)?;
        controller_usd(&own, scheme.name)?;
        Ok(choice)
    }

    /// Returns `choices` with the settings of this choice on top.
    pub(crate) fn applied<'a>(&self, choices: &'a Choices) -> Cow<'a, Choices> {
        if self.settings.is_empty() {
            return Cow::Borrowed(choices);
        }
        let mut own = choices.clone();
        let named = |(key, value): &(String, String)| (format!("{}.{key}", self.scheme.name), value.clone());
        own.settings.extend(self.settings.iter().map(named));
        Cow::Owned(own)
    }

    /// Returns true if the two choices have the same scheme and the same settings, in any order.
    pub fn is_equal(&self, other: &Self) -> bool {
        let (mut one, mut two) = (self.settings.clone(), other.settings.clone());
        one.sort();
        two.sort();
        self.scheme.name == other.scheme.name && one == two
    }
}

impl From<&'static SchemeInfo> for SchemeChoice {
    fn from(scheme: &'static SchemeInfo) -> Self {
        Self { scheme, settings: Vec::new() }
    }
}

impl fmt::Display for SchemeChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.scheme.name)?;
        self.settings.iter().try_for_each(|(key, value)| write!(formatter, ":{key}={value}"))
    }
}

impl fmt::Debug for SchemeChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::settings_for;

    fn choice(name: &str, settings: &[(&str, &str)]) -> Result<SchemeChoice, SetupError> {
        let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        SchemeChoice::new(bimetal_core::schemes::find(name).unwrap(), settings)
    }

    #[test]
    fn own_settings_precede_those_for_all_schemes() {
        let set = [("griffin.timeout", "10s"), ("read_window", "7"), ("griffin.controller_usd", "1")];
        let settings = set.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let choices = Choices { settings, ..Choices::default() };
        let griffin = choice("griffin", &[("timeout", "30s"), ("controller_usd", "5")]).unwrap();
        let own = griffin.applied(&choices);
        let settings = settings_for(griffin.scheme, &own).unwrap();
        assert_eq!((settings.text("timeout"), settings.text("read_window")), ("30s", "7"));
        assert_eq!(controller_usd(&own, "griffin").unwrap(), 5.0);
        assert_eq!(griffin.to_string(), "griffin:timeout=30s:controller_usd=5");
    }

    #[test]
    fn unknown_parameter_and_impossible_value_are_refused() {
        let error = |name, settings: &[_]| choice(name, settings).unwrap_err().to_string();
        let unknown = error("griffin", &[("tiemout", "30s")]);
        assert!(unknown.starts_with("griffin has no parameter 'tiemout': its parameters are "), "{unknown}");
        let value = error("griffin", &[("timeout", "soon")]);
        assert_eq!(value, "griffin: timeout=soon is not possible: expected a duration like 900s or 15min, or off");
        assert!(error("smq", &[("controller_usd", "-1")]).contains("controller_usd=-1: expected dollars"));
        assert!(error("griffin", &[("ssd.gc", "greedy")]).starts_with("griffin has no parameter 'ssd.gc'"));
    }

    #[test]
    fn choices_are_equal_whatever_the_order_of_their_settings() {
        let one = choice("griffin", &[("timeout", "30s"), ("read_window", "7")]).unwrap();
        let other = choice("griffin", &[("read_window", "7"), ("timeout", "30s")]).unwrap();
        assert!(one.is_equal(&other));
        assert!(!one.is_equal(&choice("griffin", &[("timeout", "30s")]).unwrap()));
    }
}
