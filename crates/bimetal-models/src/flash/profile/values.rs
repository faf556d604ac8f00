//! Values of a flash drive's profile that are not plain numbers.

use std::fmt;

use bimetal_core::units::Bytes;
use serde::Deserialize;
use serde::de;

use crate::flash::ftl;

/// Kind of cell, by the number of bits that it holds. The figures that depend on the number of bits
/// are keys of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// One bit.
    Slc,
    /// Two bits.
    Mlc,
    /// Three bits.
    Tlc,
    /// Four bits.
    Qlc,
}

impl Cell {
    /// Returns the number of bits in a cell.
    pub fn bits(self) -> u32 {
        match self {
            Self::Slc => 1,
            Self::Mlc => 2,
            Self::Tlc => 3,
            Self::Qlc => 4,
        }
    }
}

/// Flash translation layer, by its name.
#[derive(Clone, Copy)]
pub struct FtlKind(pub(crate) &'static ftl::Info);

impl Default for FtlKind {
    fn default() -> Self {
        Self(&ftl::page::INFO)
    }
}

impl fmt::Debug for FtlKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for FtlKind {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = ftl::ALL.iter().find(|info| info.name == name);
        known.map(|info| Self(info)).ok_or_else(|| {
            let names: Vec<_> = ftl::ALL.iter().map(|info| format!("`{}`", info.name)).collect();
            de::Error::custom(format_args!("unknown layer, expected {}", names.join(", ")))
        })
    }
}

/// Policies that choose a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GcKind {
    /// Block with the fewest valid units.
    #[default]
    Greedy,
    /// Block with the largest age × (1 − u) / 2u, where u is the block's share of valid units.
    CostBenefit,
    /// Block that was closed first.
    Fifo,
    /// Best of this number of blocks drawn at random.
    DChoices(u32),
}

impl fmt::Display for GcKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greedy => f.write_str("greedy"),
            Self::CostBenefit => f.write_str("cost-benefit"),
            Self::Fifo => f.write_str("fifo"),
            Self::DChoices(draws) => write!(f, "d-choices:{draws}"),
        }
    }
}

impl<'de> Deserialize<'de> for GcKind {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "greedy" => return Ok(Self::Greedy),
            "cost-benefit" => return Ok(Self::CostBenefit),
            "fifo" => return Ok(Self::Fifo),
            _ => {}
        }
        let draws = text.strip_prefix("d-choices:").and_then(|draws| draws.parse().ok());
        draws.filter(|draws| (1..=1_000_000).contains(draws)).map(Self::DChoices).ok_or_else(|| {
            let kinds =
                "`greedy`, `cost-benefit`, `fifo`, or `d-choices:` and the number of draws, like `d-choices:10`";
            de::Error::custom(format_args!("unknown policy, expected {kinds}"))
        })
    }
}

/// Size of an optional part of a drive; `None` if the drive does not have this part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeOrOff(pub Option<Bytes>);

impl<'de> Deserialize<'de> for SizeOrOff {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SizeOrOff;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"off\", a size like \"1MiB\", or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<SizeOrOff, E> {
                u64::try_from(bytes).map(|bytes| SizeOrOff(Some(Bytes(bytes)))).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeOrOff, E> {
                match text {
                    "off" => Ok(SizeOrOff(None)),
                    _ => text.parse().map(|bytes| SizeOrOff(Some(bytes))).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Times to program the pages of a cell, one for each bit of the cell, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProgramTimes {
    pub(crate) times: [f64; Self::MAX],
    /// Number of times that are given.
    pub(crate) types: u32,
}

impl ProgramTimes {
    /// Largest number of bits in a cell.
    pub(crate) const MAX: usize = 4;

    fn new(given: &[f64]) -> Option<Self> {
        let mut times = [0.0; Self::MAX];
        times.get_mut(..given.len())?.copy_from_slice(given);
        (!given.is_empty()).then_some(Self { times, types: given.len() as u32 })
    }
}

impl fmt::Display for ProgramTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times: Vec<_> = self.times[..self.types as usize].iter().map(f64::to_string).collect();
        f.write_str(&times.join(","))
    }
}

impl<'de> Deserialize<'de> for ProgramTimes {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let times: Result<Vec<f64>, _> = text.split(',').map(|time| time.trim().parse()).collect();
        times.ok().and_then(|times| Self::new(&times)).ok_or_else(|| {
            de::Error::custom(
                "no times, expected 1 to 4 times in microseconds, with commas between, like \"200,560,900\"",
            )
        })
    }
}
