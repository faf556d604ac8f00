//! Parameters of schemes: typed, documented, with units, and checked when a scheme is made.

mod value;

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::units::{Bytes, Nanoseconds};
pub use value::{Ranges, Rate, Share, Value, parameters, words};

/// Declaration of a parameter of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Kind of the parameter's values.
    pub kind: Kind,
    /// Value if none is given, in the form that `--set` takes.
    pub default: &'static str,
    /// Effect of the parameter, in a line for users.
    pub doc: &'static str,
    /// Set if the value can change while the volume is served.
    pub live: bool,
    /// Reason for which the parameter acts in a simulation only. A volume with data refuses the
    /// parameter. `None` for a parameter of every volume.
    pub simulated: Option<&'static str>,
}

/// Kinds of values of parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A duration, such as `900s`.
    Duration,
    /// A duration, or `off`.
    DurationOrOff,
    /// A size, such as `100MiB`.
    Size,
    /// A size, or `off`.
    SizeOrOff,
    /// A number of bytes a second, at least [`RATE_MIN`], or `off`.
    RateOrOff,
    /// A share from 0 to 1.
    Fraction,
    /// A share from 0 to 1, or `off`.
    FractionOrOff,
    /// A whole number.
    Count,
    /// An admission rule.
    Admission,
    /// Ranges of addresses, such as `0-1GiB,4GiB-5GiB`, or `off`.
    RangesOrOff,
    /// Numbers with colons between, as many as this value tells, or `off`.
    NumbersOrOff(usize),
    /// One word of a list.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// Returns the kind as the list of schemes shows it.
    pub fn name(self) -> String {
        match self {
            Kind::Duration => "duration".into(),
            Kind::DurationOrOff => "duration|off".into(),
            Kind::Size => "size".into(),
            Kind::SizeOrOff | Kind::RateOrOff => "size|off".into(),
            Kind::Fraction => "fraction".into(),
            Kind::FractionOrOff => "fraction|off".into(),
            Kind::Count => "count".into(),
            Kind::Admission => ADMISSION_FORMS.into(),
            Kind::RangesOrOff => "ranges|off".into(),
            Kind::NumbersOrOff(_) => "numbers|off".into(),
            Kind::Choice(words) => words.join("|"),
        }
    }

    /// Returns the unit that an error message suggests for a bare number of this kind.
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Kind::Duration | Kind::DurationOrOff => Some("time"),
            Kind::Size | Kind::SizeOrOff | Kind::RateOrOff | Kind::RangesOrOff => Some("bytes"),
            _ => None,
        }
    }

    fn expected(self) -> String {
        match self {
            Kind::Duration => "a duration like 900s or 15min".into(),
            Kind::DurationOrOff => "a duration like 900s or 15min, or off".into(),
            Kind::Size => "a size like 100MiB".into(),
            Kind::SizeOrOff => "a size like 100MiB, or off".into(),
            Kind::RateOrOff => format!("a size of at least {RATE_MIN}, or off"),
            Kind::Fraction => "a number from 0 to 1, or 0% to 100%".into(),
            Kind::FractionOrOff => "a number from 0 to 1, or 0% to 100%, or off".into(),
            Kind::Count => "a whole number".into(),
            Kind::Admission => format!("one of {}", ADMISSION_FORMS.replace('|', ", ")),
            Kind::RangesOrOff => "ranges of addresses like 0-1GiB,4GiB-5GiB, or off".into(),
            Kind::NumbersOrOff(count) => format!("{count} numbers with colons between, or off"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }

    fn accepts(self, value: &str) -> bool {
        match self {
            Kind::Duration => Nanoseconds::read(value).is_some(),
            Kind::DurationOrOff => Option::<Nanoseconds>::read(value).is_some(),
            Kind::Size => Bytes::read(value).is_some(),
            Kind::SizeOrOff => Option::<Bytes>::read(value).is_some(),
            Kind::RateOrOff => Option::<Rate>::read(value).is_some(),
            Kind::Fraction => Share::read(value).is_some(),
            Kind::FractionOrOff => Option::<Share>::read(value).is_some(),
            Kind::Count => u64::read(value).is_some(),
            Kind::Admission => AdmissionRule::read(value).is_some(),
            Kind::RangesOrOff => Ranges::read(value).is_some(),
            Kind::NumbersOrOff(count) => {
                value == "off" || value::numbers(value).is_some_and(|numbers| numbers.len() == count)
            }
            Kind::Choice(words) => words.contains(&value),
        }
    }
}

/// Forms of an [`AdmissionRule`].
const ADMISSION_FORMS: &str = "all|write-size:SIZE|n-hit:N|sequential:SIZE|wear-budget:SIZE/d";

/// An admission rule, which [`policies::admission`](crate::policies::admission) applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionRule {
    /// Every block is admitted.
    All,
    /// Blocks of writes of at least this size are not admitted.
    WriteSize(Bytes),
    /// Blocks that were requested this number of times are admitted.
    NHit(u8),
    /// Blocks of adjacent requests that together reach this size are not admitted.
    Sequential(Bytes),
    /// Number of bytes that may be written to slots in a day.
    WearBudget(Bytes),
}

impl FromStr for AdmissionRule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let size = |text: &str| text.parse::<Bytes>().map_err(|_| ());
        match name {
            "all" if value.is_empty() => Ok(Self::All),
            "write-size" => size(value).map(Self::WriteSize),
            "n-hit" => value.parse().ok().filter(|&hits| hits >= 1).map(Self::NHit).ok_or(()),
            "sequential" => size(value).map(Self::Sequential),
            "wear-budget" => size(value.strip_suffix("/d").ok_or(())?).map(Self::WearBudget),
            _ => Err(()),
        }
    }
}

/// Smallest rate of a move. At a lower rate, one operation takes longer than a user is willing to
/// wait.
pub const RATE_MIN: Bytes = Bytes::from_kib(64);

/// Parameter of every scheme that writes back: the largest rate of moves.
pub const MOVE_RATE: Parameter = Parameter {
    name: "move_rate",
    kind: Kind::RateOrOff,
    default: "off",
    doc: "bytes a second that write-back writes at most, unless requests wait for free slots; off: no limit",
    live: true,
    simulated: None,
};

/// Parameter of a scheme with a log on a disk: the memory of a migration.
pub const MOVE_MEMORY: Parameter = Parameter {
    name: "move_memory",
    kind: Kind::Size,
    default: "64MiB",
    doc: "memory of a migration, in addition to 24 bytes for each block; at least two operations; a much larger \
          migration is sorted by runs in the free part of the log (section 5.4); more than 64MiB is used only if that \
          saves runs, or reads of the log",
    live: true,
    simulated: None,
};

/// Reasons for which a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The scheme has no such parameter.
    #[error("{scheme} has no parameter '{key}': its parameters are {known}")]
    Unknown {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name that was given.
        key: String,
        /// Names of the scheme's parameters.
        known: String,
    },
    /// The parameter exists, but cannot change while the volume is served.
    #[error(
        "{scheme}: {key} cannot change while the volume is served: run `bimetal drain VOLUME --detach` and set it \
         then, unless it decides where data lies on the drives"
    )]
    NotLive {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the parameter.
        key: String,
    },
    /// The parameter does not take this value.
    #[error("{scheme}: {key}={value} is not possible: expected {expected}")]
    Value {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the parameter.
        key: &'static str,
        /// Value that was given.
        value: String,
        /// Values that the parameter takes.
        expected: String,
    },
}

/// Values of all parameters of one scheme, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    scheme: &'static str,
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Returns the defaults of `parameters`, replaced by the values in `given`.
    pub fn new<'a>(
        scheme: &'static str,
        parameters: &'static [Parameter],
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingError> {
        let mut values: BTreeMap<&'static str, String> =
            parameters.iter().map(|parameter| (parameter.name, parameter.default.to_owned())).collect();
        for (key, value) in given {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == key) else {
                let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(SettingError::Unknown { scheme, key: key.to_owned(), known });
            };
            if !parameter.kind.accepts(value) {
                let (key, value, expected) = (parameter.name, value.to_owned(), parameter.kind.expected());
                return Err(SettingError::Value { scheme, key, value, expected });
            }
            values.insert(parameter.name, value.to_owned());
        }
        Ok(Self { scheme, values })
    }

    /// Returns every parameter with its value, in the form that `--set` takes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(&key, value)| (key, value.as_str()))
    }

    /// Returns the scheme's name.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Returns the value of a parameter that not every scheme declares, as text.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Returns the value of a parameter, as text. A scheme asks only for parameters that it
    /// declares, so a missing parameter is an error in the scheme's file.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).unwrap_or_else(|| panic!("{} declares no parameter '{key}'", self.scheme))
    }

    /// Returns an error for a parameter whose value has the right kind but is not possible for this
    /// scheme or layout.
    pub fn refuse(&self, key: &'static str, expected: impl Into<String>) -> SettingError {
        SettingError::Value { scheme: self.scheme, key, value: self.text(key).to_owned(), expected: expected.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        enum Mode {
            A = "a",
            B = "b",
        }
    }

    parameters! {
        struct Parameters {
            /// first line
            /// and second
            timeout: Option<Nanoseconds> = "900s" live,
            /// mode
            mode: Mode = "a",
        }
        and MOVE_RATE
    }

    #[test]
    fn parameter_that_is_not_given_has_its_default() {
        let settings = Settings::new("x", Parameters::LIST, [("mode", "b")]).unwrap();
        let values = Parameters::of(&settings);
        assert_eq!((values.timeout, values.mode), (Some(Nanoseconds::from_seconds(900)), Mode::B));
        let off = Settings::new("x", Parameters::LIST, [("timeout", "off")]).unwrap();
        assert_eq!(Parameters::of(&off).timeout, None);
        assert_eq!(Parameters::of(&off).mode, Mode::A);
    }

    #[test]
    fn declaration_gives_name_kind_doc_and_order() {
        let [timeout, mode, rate] = Parameters::LIST else { panic!("{:?}", Parameters::LIST) };
        assert_eq!((timeout.name, timeout.doc), (name::timeout, "first line and second"));
        assert_eq!((mode.name, mode.kind), ("mode", Kind::Choice(&["a", "b"])));
        assert_eq!(rate.name, MOVE_RATE.name);
        assert_eq!(["timeout", "mode", "nothing"].map(Parameters::is_live), [true, false, false]);
    }

    #[test]
    fn wrong_keys_and_values_are_refused_with_what_was_expected() {
        let error = Settings::new("x", Parameters::LIST, [("timout", "1s")]).unwrap_err();
        assert_eq!(error.to_string(), "x has no parameter 'timout': its parameters are timeout, mode, move_rate");
        let error = Settings::new("x", Parameters::LIST, [("timeout", "soon")]).unwrap_err();
        assert!(error.to_string().contains("timeout=soon"), "{error}");
        let error = Settings::new("x", Parameters::LIST, [("mode", "c")]).unwrap_err();
        assert_eq!(error.to_string(), "x: mode=c is not possible: expected one of a, b");
    }

    #[test]
    fn a_share_is_a_number_or_a_percentage() {
        let read = |value| {
            const SHARE: &[Parameter] = &[Parameter {
                name: "share",
                kind: Kind::FractionOrOff,
                default: "0.1",
                doc: "",
                live: false,
                simulated: None,
            }];
            Settings::new("x", SHARE, [("share", value)]).map(|settings| settings.value::<Option<Share>>("share"))
        };
        for (value, share) in [("0.1", Some(0.1)), ("10%", Some(0.1)), ("100%", Some(1.0)), ("off", None)] {
            assert_eq!(read(value).unwrap(), share.map(Share), "{value}");
        }
        for wrong in ["10", "101%", "-1%", "%", "nan", "a lot"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("expected a number from 0 to 1, or 0% to 100%, or off"), "{error}");
        }
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        assert_eq!("all".parse(), Ok(AdmissionRule::All));
        assert_eq!("write-size:64KiB".parse(), Ok(AdmissionRule::WriteSize(Bytes::from_kib(64))));
        assert_eq!("n-hit:2".parse(), Ok(AdmissionRule::NHit(2)));
        assert_eq!("sequential:1MiB".parse(), Ok(AdmissionRule::Sequential(Bytes::from_mib(1))));
        assert_eq!("wear-budget:20GiB/d".parse(), Ok(AdmissionRule::WearBudget(Bytes::from_gib(20))));
        for wrong in
            ["", "none", "all:1", "n-hit", "n-hit:0", "n-hit:256", "write-size", "wear-budget:1GiB", "sequential:x"]
        {
            assert_eq!(wrong.parse::<AdmissionRule>(), Err(()), "{wrong}");
        }
    }
}
