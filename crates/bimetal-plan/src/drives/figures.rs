//! The keys of drives, cloud volumes and prices: names, types, and the values that a file may have.

use bimetal_core::units::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Value;

use super::bytes_of;
use super::date::Date;
use crate::catalogue::Kind;

/// Word for a figure that is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// A key of a file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Form of the key's value.
    pub shape: Shape,
    /// Values that the key takes.
    pub expected: &'static str,
    /// Meaning of the key.
    pub doc: &'static str,
}

impl Key {
    /// Returns true if a drive of `kind` can have the key.
    pub fn fits(&self, kind: Kind) -> bool {
        const SSD_ONLY: [&str; 7] =
            ["cell", "map_memory", "tbw_tb", "dwpd", "mapping_unit_bytes", "write_rates", "sustained_write_mb_per_s"];
        const HDD_ONLY: [&str; 5] = ["recording", "actuators", "rpm", "workload_tb_per_year", "random_depth"];
        match kind {
            Kind::Ssd => !HDD_ONLY.contains(&self.name),
            Kind::Hdd => !SSD_ONLY.contains(&self.name),
        }
    }
}

/// Form of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A word or a text.
    Text,
    /// A number, or one number for each size.
    PerSize,
    /// A list of numbers.
    List,
    /// True or false.
    Flag,
}

/// Type of the value of a key.
trait Shaped {
    const SHAPE: Shape;
}

macro_rules! shaped {
    ($($shape:ident: $($type:ty),*;)*) => {
        $($(impl Shaped for $type {
            const SHAPE: Shape = Shape::$shape;
        })*)*
    };
}

shaped! {
    Text: String, Cell, Recording, WriteRates, MapMemory, PowerLossProtection, Size, Rate, Date, Market, Condition;
    PerSize: PerSize;
    List: Vec<u32>, Vec<String>;
    Flag: bool;
}

/// Makes a struct of optional figures, and the table of their keys.
macro_rules! figures {
    ($(#[$meta:meta])* $name:ident, $keys:ident { $($key:ident: $type:ty, $expected:literal, $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                #[doc = $doc]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
        }

        #[doc = concat!("Keys of [`", stringify!($name), "`], in the order of a file.")]
        pub const $keys: &[Key] = &[$(Key {
            name: stringify!($key),
            shape: <$type as Shaped>::SHAPE,
            expected: $expected,
            doc: $doc,
        }),*];
    };
}

figures! {
    /// Figures of a drive.
    DriveFigures, DRIVE_KEYS {
        interface: String, "a text like \"PCIe 4.0 x4 NVMe\"", "Interface of the drive.";
        cell: Cell, "SLC, MLC, TLC, QLC or 3D XPoint", "Cells of an SSD.";
        recording: Recording, "CMR, DM-SMR or HM-SMR", "Recording of a hard disk: conventional (CMR), shingled and managed by the drive (DM-SMR), or by the host (HM-SMR).";
        actuators: PerSize, "a number above 0, or one for each of sizes", "Number of independent actuators of a hard disk.";
        rpm: PerSize, "a number above 0, or one for each of sizes", "Revolutions of a hard disk in a minute.";
        map_memory: MapMemory, "DRAM, HMB or none", "Memory for the mapping table of an SSD: its own, or the host's (HMB).";
        cache_mb: PerSize, "a number above 0, or one for each of sizes", "Cache of a hard disk, in MB.";
        tbw_tb: PerSize, "a list with a number above 0 for each of sizes", "Rated TB written during the warranty.";
        dwpd: PerSize, "a number above 0, or one for each of sizes", "Rated drive writes a day during the warranty.";
        workload_tb_per_year: PerSize, "a number above 0, or one for each of sizes", "TB that a hard disk is rated to read and write in a year.";
        warranty_years: PerSize, "a number above 0, or one for each of sizes", "Years of warranty.";
        power_loss_protection: PowerLossProtection, "none, at-rest, write-cache or full", "Data that a power cut cannot harm: none; at-rest: old data; write-cache: a part of the cache too; full: every acknowledged write.";
        active_w: PerSize, "a number above 0, or one for each of sizes", "Mean power under load, in W; of a range, the upper end.";
        peak_w: PerSize, "a number above 0, or one for each of sizes", "Highest power, in W.";
        idle_w: PerSize, "a number above 0, or one for each of sizes", "Power without requests, in W.";
        mtbf_hours: PerSize, "a number above 0, or one for each of sizes", "Rated mean time between failures, in hours.";
        afr_percent: PerSize, "a number above 0, or one for each of sizes", "Rated share of drives that fail in a year, in percent.";
        field_afr_percent: PerSize, "a number above 0, or one for each of sizes", "Share of drives that failed in a year in a fleet, in percent.";
        logical_sector_bytes: Vec<u32>, "a list of sizes in bytes, like [512, 4096]", "Logical sector sizes that the drive can be formatted to, in bytes; as delivered first.";
        physical_sector_bytes: PerSize, "a number above 0, or one for each of sizes", "Physical sector size, in bytes.";
        mapping_unit_bytes: PerSize, "a number above 0, or one for each of sizes", "Unit of an SSD's map, in bytes; smaller random writes cost a whole unit.";
        sequential_read_mb_per_s: PerSize, "a number above 0, or one for each of sizes", "Sequential reads, in MB/s.";
        sequential_write_mb_per_s: PerSize, "a number above 0, or one for each of sizes", "Sequential writes, in MB/s.";
        write_rates: WriteRates, "burst or steady", "State of an SSD at its rates of writes: burst, into an SLC cache with room; or steady, full and overwritten.";
        sustained_write_mb_per_s: PerSize, "a number above 0, or one for each of sizes", "Upper limit of writes once the SLC cache is full, in MB/s.";
        random_read_iops: PerSize, "a number above 0, or one for each of sizes", "Random reads of 4 KiB with many requests under way, in a second.";
        random_write_iops: PerSize, "a number above 0, or one for each of sizes", "Random writes of 4 KiB with many requests under way, in a second.";
        random_depth: PerSize, "a number above 0, or one for each of sizes", "Number of random requests under way for which the rates of a hard disk hold; 16 without this key.";
        qd1_read_iops: PerSize, "a number above 0, or one for each of sizes", "Random reads of 4 KiB, one after the other, in a second.";
        qd1_write_iops: PerSize, "a number above 0, or one for each of sizes", "Random writes of 4 KiB, one after the other, in a second.";
        read_latency_us: PerSize, "a number above 0, or one for each of sizes", "Typical time of a read of 4 KiB, in µs.";
        write_latency_us: PerSize, "a number above 0, or one for each of sizes", "Typical time of a write of 4 KiB, in µs.";
    }
}

figures! {
    /// Figures and prices of a cloud volume.
    VolumeFigures, VOLUME_KEYS {
        size_min: Size, "a size like 1GiB", "Smallest size.";
        size_max: Size, "a size like 64TiB", "Largest size.";
        iops_max: PerSize, "a number above 0", "Most requests in a second that the volume serves.";
        iops_min: PerSize, "a number above 0", "Requests in a second that the smallest volume serves.";
        iops_base: PerSize, "a number above 0", "Requests in a second that a volume of any size serves; iops_per_gib adds to these.";
        iops_per_gib: PerSize, "a number above 0", "Requests in a second that each GiB of the volume adds.";
        iops_per_gib_max: PerSize, "a number above 0", "Most requests in a second that can be bought for each GiB.";
        iops_included: PerSize, "a number above 0", "Requests in a second that the price of the size includes.";
        throughput_max: Rate, "a rate like 250MiB/s", "Highest throughput of the volume.";
        throughput_included: Rate, "a rate like 125MiB/s", "Throughput that the price of the size includes.";
        throughput_per_gib: Rate, "a rate like 40KiB/s", "Throughput that each GiB of the volume adds.";
        throughput_per_gib_burst: Rate, "a rate like 250KiB/s", "Throughput for each GiB while the bucket has credit.";
        throughput_per_iops_max: Rate, "a rate like 0.25MiB/s", "Highest throughput that can be bought for each request in a second.";
        throughput_credit_per_gib: Size, "a size like 1GiB", "Bytes that a full bucket of credit holds for each GiB.";
        burst_iops: PerSize, "a number above 0", "Requests in a second while the bucket has credit.";
        burst_credit: PerSize, "a number above 0", "Number of requests above the baseline rate for which a full bucket of burst credit suffices.";
        request_kib_max: PerSize, "a number above 0", "Longest request that counts as one request, in KiB.";
        request_kib_min: PerSize, "a number above 0", "Smallest number of KiB for which a request counts, unless the \
        request continues the request before it.";
        latency_us: PerSize, "a number above 0", "Typical time of a request that waits for no limit, in µs.";
        usd_per_gb_month: PerSize, "a number above 0", "Dollars a month for each GB.";
        usd_per_gib_month: PerSize, "a number above 0", "Dollars a month for each GiB.";
        usd_per_iops_month: PerSize, "a number above 0", "Dollars a month for each request in a second beyond iops_included.";
        usd_per_mib_s_month: PerSize, "a number above 0", "Dollars a month for each MiB/s beyond throughput_included.";
        usd_per_mb_s_month: PerSize, "a number above 0", "Dollars a month for each MB/s beyond throughput_included.";
        usd_per_month: PerSize, "a number above 0", "Dollars a month for the volume.";
        durability_percent: PerSize, "a number above 0", "Share of volumes that survive a year, in percent; of a range, the lower end.";
    }
}

figures! {
    /// Prices of a drive on one date. If listings of a price differ, the lowest price counts.
    Price, PRICE_KEYS {
        usd: PerSize, "a list with a price for each of sizes, or \"unknown\"", "Price in US dollars, one for each of sizes.";
        eur: PerSize, "a list with a price for each of sizes, or \"unknown\"", "Price in euros, one for each of sizes.";
        date: Date, "a date like 2026-11-22, 2026-11 or 2026", "Date of the prices.";
        market: Market, "retail, contract or list", "Market of the prices.";
        condition: Condition, "new or recertified", "Condition of the drive.";
        unverified: bool, "true, or no such key", "Set for prices without a source.";
        sources: Vec<String>, "a list of names from [sources]", "Names of the sources.";
    }
}

impl Price {
    /// Returns the price of the size at `index`.
    pub fn amount(&self, index: usize) -> Option<f64> {
        self.usd.as_ref().or(self.eur.as_ref())?.get(index)
    }

    /// Returns the sign of the currency.
    pub fn sign(&self) -> &'static str {
        if self.eur.is_some() { "€" } else { "$" }
    }
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $word:literal: $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $(#[doc = $doc] #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Returns the word for the value in a file.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// Cells of an SSD.
    Cell {
        Slc = "SLC": "One bit.";
        Mlc = "MLC": "Two bits.";
        Tlc = "TLC": "Three bits.";
        Qlc = "QLC": "Four bits.";
        XPoint = "3D XPoint": "Phase-change cells that are changed in place.";
    }
}

words! {
    /// Recording of a hard disk.
    Recording {
        Cmr = "CMR": "Conventional tracks.";
        DriveManagedSmr = "DM-SMR": "Shingled tracks; the drive rewrites bands itself.";
        HostManagedSmr = "HM-SMR": "Shingled tracks; the host writes zones in order.";
    }
}

words! {
    /// State of an SSD at the rates of writes that its data sheet names.
    WriteRates {
        Burst = "burst": "Writes into a cache of single-bit cells that has room.";
        Steady = "steady": "Writes to a drive that is full, and collects garbage.";
    }
}

words! {
    /// Memory for the mapping table of an SSD.
    MapMemory {
        Dram = "DRAM": "Memory of the drive.";
        Host = "HMB": "Memory of the host.";
        None = "none": "No map.";
    }
}

words! {
    /// Data that a power cut cannot harm.
    PowerLossProtection {
        None = "none": "No promise.";
        AtRest = "at-rest": "Data that were written before.";
        WriteCache = "write-cache": "Old data, and a part of the write cache.";
        Full = "full": "Every acknowledged write.";
    }
}

words! {
    /// Market of a price.
    Market {
        Retail = "retail": "A shop's price for single drives.";
        Contract = "contract": "A price for large customers.";
        List = "list": "The maker's price.";
    }
}

words! {
    /// Condition of a drive for sale.
    Condition {
        New = "new": "Never used.";
        Recertified = "recertified": "Used, tested and sold again.";
    }
}

/// A number for all sizes, or one number for each size.
#[derive(Clone, Debug, PartialEq)]
pub enum PerSize {
    /// The number of all sizes.
    All(f64),
    /// The number of each size, in the order of the sizes. `None`: not known.
    Each(Vec<Option<f64>>),
}

impl PerSize {
    /// Returns the number of the size at `index`.
    pub fn get(&self, index: usize) -> Option<f64> {
        match self {
            Self::All(number) => Some(*number),
            Self::Each(numbers) => numbers.get(index).copied().flatten(),
        }
    }
}

/// Returns a number above 0, or `None` for any other value.
fn number_in(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return None,
    };
    (number.is_finite() && number > 0.0).then_some(number)
}

impl<'de> Deserialize<'de> for PerSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("not a number above 0");
        match Value::deserialize(deserializer)? {
            Value::Array(values) => {
                let known = |value: &Value| match value {
                    Value::String(word) if word == UNKNOWN => Some(None),
                    value => number_in(value).map(Some),
                };
                let numbers: Option<Vec<_>> = values.iter().map(known).collect();
                let numbers = numbers.filter(|numbers| numbers.iter().any(Option::is_some));
                numbers.map(Self::Each).ok_or_else(wrong)
            }
            value => number_in(&value).map(Self::All).ok_or_else(wrong),
        }
    }
}

impl Serialize for PerSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All(number) => value_of(Some(*number)).serialize(serializer),
            Self::Each(numbers) => serializer.collect_seq(numbers.iter().map(|number| value_of(*number))),
        }
    }
}

/// Returns a number as TOML has it: without a point if it is whole.
fn value_of(number: Option<f64>) -> Value {
    match number {
        None => Value::String(UNKNOWN.to_owned()),
        Some(number) if number.fract() == 0.0 && number < 1e15 => Value::Integer(number as i64),
        Some(number) => Value::Float(number),
    }
}

/// Makes a type of a text with a number and a unit. The text is kept as it was written.
macro_rules! measured {
    ($(#[$meta:meta])* $name:ident, $parse:expr, $expected:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name {
            /// The date as the file has it.
            pub text: String,
            /// The text's value in bytes.
            pub bytes: Bytes,
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let parse: fn(&str) -> Option<Bytes> = $parse;
                match parse(&text) {
                    Some(bytes) => Ok(Self { text, bytes }),
                    None => Err(format!(concat!("{}: expected ", $expected), text)),
                }
            }
        }

        impl From<$name> for String {
            fn from(measured: $name) -> Self {
                measured.text
            }
        }
    };
}

measured!(
    /// A size, such as `1.92TB`.
    Size,
    bytes_of,
    "a size like 1.92TB"
);
measured!(
    /// Bytes in a second, such as `250MiB/s`.
    Rate,
    |text| text.strip_suffix("/s")?.parse().ok().filter(|bytes: &Bytes| bytes.0 > 0),
    "a rate like 250MiB/s"
);
