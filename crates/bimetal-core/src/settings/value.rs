//! Typed values of parameters: each type of a parameter's value reads its own text.
//!
//! [`parameters!`](crate::parameters) declares the parameters of a scheme once, as fields with
//! their types, defaults and docs. [`words!`](crate::words) declares a choice between words as an
//! `enum`, so that a `match` without an arm for a word does not compile.

use super::{AdmissionRule, Kind, RATE_MIN, Settings};
use crate::units::{Bytes, Nanoseconds};

/// A type of a parameter's value.
pub trait Value: Sized {
    /// Kind of the parameter.
    const KIND: Kind;

    /// Reads a value in the form that `--set` takes. `None` if the text is not a possible value of
    /// the parameter.
    fn read(text: &str) -> Option<Self>;
}

/// A share from 0 to 1, as `0.1` or `10%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Share(pub f64);

/// Bytes a second, at least [`RATE_MIN`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate(pub Bytes);

/// Ranges of addresses, each as its first byte and the byte after its last byte; no range for
/// `off`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges(pub Vec<(Bytes, Bytes)>);

/// Reads `off` as no value, and any other text by `read`.
fn or_off<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "off" { Some(None) } else { read(text).map(Some) }
}

impl Value for Nanoseconds {
    const KIND: Kind = Kind::Duration;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for Option<Nanoseconds> {
    const KIND: Kind = Kind::DurationOrOff;

    fn read(text: &str) -> Option<Self> {
        or_off(text, Nanoseconds::read)
    }
}

impl Value for Bytes {
    const KIND: Kind = Kind::Size;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for Option<Bytes> {
    const KIND: Kind = Kind::SizeOrOff;

    fn read(text: &str) -> Option<Self> {
        or_off(text, Bytes::read)
    }
}

impl Value for Option<Rate> {
    const KIND: Kind = Kind::RateOrOff;

    fn read(text: &str) -> Option<Self> {
        or_off(text, |text| Bytes::read(text).filter(|&rate| rate >= RATE_MIN).map(Rate))
    }
}

impl Value for Share {
    const KIND: Kind = Kind::Fraction;

    fn read(text: &str) -> Option<Self> {
        let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 100.0));
        let share = number.parse::<f64>().ok()? / whole;
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }
}

impl Value for Option<Share> {
    const KIND: Kind = Kind::FractionOrOff;

    fn read(text: &str) -> Option<Self> {
        or_off(text, Share::read)
    }
}

impl Value for u64 {
    const KIND: Kind = Kind::Count;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for AdmissionRule {
    const KIND: Kind = Kind::Admission;

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for Ranges {
    const KIND: Kind = Kind::RangesOrOff;

    fn read(text: &str) -> Option<Self> {
        let range = |text: &str| {
            let (from, to) = text.split_once('-')?;
            let (from, to): (Bytes, Bytes) = (from.parse().ok()?, to.parse().ok()?);
            (from < to).then_some((from, to))
        };
        let ranges = or_off(text, |text| text.split(',').map(range).collect::<Option<Vec<_>>>())?;
        Some(Self(ranges.unwrap_or_default()))
    }
}

impl<const COUNT: usize> Value for Option<[f64; COUNT]> {
    const KIND: Kind = Kind::NumbersOrOff(COUNT);

    fn read(text: &str) -> Option<Self> {
        or_off(text, |text| numbers(text)?.try_into().ok())
    }
}

/// Reads numbers such as `1.5:-2:0`, each finite.
pub(super) fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split(':').map(|number| number.parse().ok().filter(|number: &f64| number.is_finite())).collect()
}

impl Value for bool {
    const KIND: Kind = Kind::Choice(&["on", "off"]);

    fn read(text: &str) -> Option<Self> {
        match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }
}

impl Settings {
    /// Returns the value of a parameter that the scheme declares with this type.
    /// [`parameters!`](crate::parameters) calls this function for each field.
    pub fn value<T: Value>(&self, key: &str) -> T {
        T::read(self.text(key)).unwrap_or_else(|| panic!("{}.{key} is declared with another type", self.scheme()))
    }

    /// Returns the value of a parameter that not every scheme declares.
    pub fn declared<T: Value>(&self, key: &str) -> Option<T> {
        self.get(key).and_then(T::read)
    }
}

/// Declares a parameter that takes one of several words: an `enum` with the word of each variant.
///
/// ```
/// bimetal_core::settings::words! {
///     /// Order of the copies.
///     enum Order {
///         First = "first",
///         Last = "last",
///     }
/// }
/// use bimetal_core::settings::Value as _;
/// assert_eq!(Order::read("last"), Some(Order::Last));
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $visibility enum $name {
            $($(#[$about])* $variant),+
        }

        impl $crate::settings::Value for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(&[$($word),+]);

            fn read(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

/// Declares the parameters of a scheme: a `struct` with a field for each.
///
/// - A field's doc comment is the parameter's doc for users; its type is a [`Value`].
/// - The text after `=` is the default. `live` after the default marks a parameter that can change
///   while the volume is served. `simulated("reason")` marks a parameter that acts in a simulation
///   only.
/// - Parameters after the word `and` are declared in another file, and have no field in this
///   struct.
/// - `LIST` has all parameters for [`SchemeInfo`](crate::scheme::SchemeInfo), `of` reads the fields
///   from [`Settings`], and the module `name` has the name of each field.
///
/// ```
/// use bimetal_core::settings::{MOVE_RATE, Settings};
/// use bimetal_core::units::Nanoseconds;
///
/// bimetal_core::settings::parameters! {
///     /// Parameters of a scheme.
///     struct Parameters {
///         /// time after which blocks are written back
///         timeout: Option<Nanoseconds> = "900s" live,
///     }
///     and MOVE_RATE
/// }
///
/// let settings = Settings::new("example", Parameters::LIST, [("timeout", "off")])?;
/// assert_eq!(Parameters::of(&settings).timeout, None);
/// assert!(Parameters::is_live(name::timeout));
/// # Ok::<(), bimetal_core::settings::SettingError>(())
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$meta:meta])* $visibility:vis struct $parameters:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:literal $($mark:ident $(($why:literal))?)?),+ $(,)?
        }
        $(and $($shared:path),+ $(,)?)?
    ) => {
        $(#[$meta])*
        $visibility struct $parameters {
            $($(#[doc = $doc])+ $visibility $field: $type),+
        }

        #[allow(dead_code)]
        impl $parameters {
            /// All parameters, in the order in which they are listed.
            $visibility const LIST: &'static [$crate::settings::Parameter] = &[
                $($crate::settings::Parameter {
                    name: stringify!($field),
                    kind: <$type as $crate::settings::Value>::KIND,
                    default: $default,
                    doc: concat!($($doc),+).trim_ascii(),
                    live: $crate::settings::parameters!(@live $($mark)?),
                    simulated: $crate::settings::parameters!(@simulated $($mark $($why)?)?),
                },)+
                $($($shared),+)?
            ];

            /// Reads the values.
            $visibility fn of(settings: &$crate::settings::Settings) -> Self {
                Self { $($field: settings.value(stringify!($field))),+ }
            }

            /// Returns true if the parameter `key` can change while the volume is served.
            $visibility fn is_live(key: &str) -> bool {
                Self::LIST.iter().any(|parameter| parameter.live && parameter.name == key)
            }
        }

        /// Names of the parameters.
        #[allow(dead_code, non_upper_case_globals)]
        mod name {
            $(pub(super) const $field: &str = stringify!($field);)+
        }
    };
    (@live live) => { true };
    (@live $($simulated:ident)?) => { false };
    (@simulated simulated $why:literal) => { Some($why) };
    (@simulated $($live:ident)?) => { None };
}

pub use {parameters, words};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_in_bytes_and_empty_or_reversed_ones_refused() {
        let ranges = Ranges::read("0-1KiB,1MiB-2MiB").unwrap();
        assert_eq!(ranges.0[1], (Bytes::from_mib(1), Bytes::from_mib(2)));
        for wrong in ["", "5", "5-5", "6-5", "0-1,", "a-b"] {
            assert!(Ranges::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_read_if_they_are_as_many_as_declared() {
        assert_eq!(Option::<[f64; 2]>::read("1.5:-2"), Some(Some([1.5, -2.0])));
        assert_eq!(Option::<[f64; 2]>::read("off"), Some(None));
        for wrong in ["1.5", "1:2:3", "1:nan", ""] {
            assert_eq!(Option::<[f64; 2]>::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rate_below_the_minimum_is_refused() {
        assert_eq!(Option::<Rate>::read("64KiB"), Some(Some(Rate(RATE_MIN))));
        assert_eq!(Option::<Rate>::read("63KiB"), None);
    }

    /// Every parameter's default is a value of its type, so a scheme without settings can be made.
    #[test]
    fn default_of_each_parameter_is_a_value_of_its_kind() {
        for info in crate::schemes::every() {
            let defaults = info.parameters.iter().map(|parameter| (parameter.name, parameter.default));
            assert_eq!(Settings::new(info.name, info.parameters, defaults).err(), None);
        }
    }
}
