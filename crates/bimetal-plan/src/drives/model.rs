//! Profiles of drives on sale, by name: the model of a row of `drives/`.
//!
//! A row has the figures of a data sheet and no geometry. So the profile of a row is the profile of
//! a built-in drive of the same kind, with the row's figures in place of the built-in figures:
//!
//! | row | profile |
//! |---|---|
//! | `sizes` | `capacity`: the sectors that makers give a nominal size |
//! | `tbw_tb`, or `dwpd`; `warranty_years` | the warranted writes |
//! | rates and times of an SSD | its link, dies, cells and spare area: see `drives/flash.rs` |
//! | `sequential_read_mb_per_s` | outer rate of a disk |
//! | `random_read_iops`, `random_depth` | seek times of a disk |
//! | `random_write_iops` | number of cached writes among which a disk chooses |
//! | `actuators` | the actuators; each has its share of the rate |
//! | `recording` | `DM-SMR`: a staging area and bands |
//! | `rpm`, `cache_mb`, powers, prices | the figures of the same meaning |
//! | `field_afr_percent`, `afr_percent` or `mtbf_hours` | the share of drives that fail in a year |
//!
//! Disks whose host manages the shingles, and drives of 3D XPoint, have no model and are refused.

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use bimetal_core::units::{Bytes, counted};
use bimetal_models::flash::FlashProfile;
use bimetal_models::hdd::HddProfile;
use bimetal_models::profile::{Body, Further, Price, Profile};
use bimetal_sim::market::{OnSale, is_nominal};
use bimetal_sim::ownership::HOURS_A_YEAR;
use toml::{Table, Value};

use super::date::Date;
use super::figures::{Cell, PerSize, PowerLossProtection, Recording, Size, WriteRates};
use super::flash::{self, Rates};
use super::{Drive, DriveFile, built_in, cloud};
use crate::catalogue::{Kind, Offer};

/// Profiles of the catalogue, for [`Profile::add_further`].
pub const CATALOGUE: Further = Further { text: profile_text, names };

/// Rate of a disk's innermost tracks as a share of the rate of its outermost tracks: the ratio of
/// their radii.
const INNER_SHARE: f64 = 0.46;

/// Random writes a second of a disk whose row has no such rate: the rate in most rows.
const DISK_WRITES: f64 = 550.0;

/// Number of random requests under way at the rates of a disk's row, if the row gives no number.
pub(super) const DISK_DEPTH: f64 = 16.0;

/// Units in names.
const UNITS: [&str; 5] = ["gb", "tb", "gib", "tib", "iops"];

/// Construction of a shingled disk, which no data sheet describes: its staging area, its bands, and
/// the idle time before it cleans. The figures are general knowledge that nobody has checked.
const SHINGLED: [(&str, &str); 3] = [("staging_area", "24GiB"), ("band", "32MiB"), ("clean_after_s", "1")];

/// A drive in one size.
struct Row<'a> {
    drive: &'a Drive,
    size: usize,
}

/// Files of the user, added to the built-in files. The names of their drives come first.
static OWN: RwLock<Vec<&'static DriveFile>> = RwLock::new(Vec::new());

/// Adds a file of the user to the built-in files: `--ssd`, `--hdd` and `--catalog` find its drives
/// by name.
pub fn add_file(file: DriveFile) {
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    if !own.contains(&&file) {
        own.push(Box::leak(Box::new(file)));
    }
}

/// Returns the files of the user and the built-in files.
pub fn files() -> Vec<&'static DriveFile> {
    static BUILT_IN: OnceLock<Vec<DriveFile>> = OnceLock::new();
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner).clone();
    own.into_iter().chain(BUILT_IN.get_or_init(built_in)).collect()
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    files().into_iter().flat_map(rows_of)
}

fn rows_of(file: &DriveFile) -> impl Iterator<Item = Row<'_>> {
    file.drives.iter().flat_map(|drive| (0..drive.sizes.len()).map(move |size| Row { drive, size }))
}

/// Returns every drive of a file that has a price in dollars and a model.
pub fn offers(file: &DriveFile) -> Vec<Offer> {
    rows_of(file).filter_map(|row| row.offer()).collect()
}

/// Returns the drives of `model`, in all sizes that have a price in dollars and a model.
pub(crate) fn offers_of(model: &str) -> Vec<Offer> {
    let wanted = slug(model);
    rows().filter(|row| is_named(row.drive, &wanted)).filter_map(|row| row.offer()).collect()
}

/// Returns the newest price in dollars of one drive of `model` with `bytes`, with the date, if it
/// is newer than `date`. [`Drive::price_lists`] prefers prices of one date for all sizes of a
/// drive, so a buyer must know of newer ones.
pub(crate) fn newer_price(model: &str, bytes: u64, date: Date) -> Option<(f64, Date)> {
    row_of(model, bytes)?.newer_price(date)
}

/// Newer prices of drives relative to the prices that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// Number of drives with a newer price. Each size of a model is a drive.
    pub drives: usize,
    /// Least and greatest ratio of a newer price to the price that counts.
    pub ratios: [f64; 2],
    /// Date of the oldest of the prices that count, and of the newest of the newer prices.
    pub dates: [Date; 2],
}

impl Rise {
    /// Returns how far newer prices of drives of `kind` differ, like `2 SSDs for sale cost 1.5 to
    /// 2.2 times as much on 2026-02 as on 2025-07-23`.
    pub fn told(&self, kind: Kind) -> String {
        let Self { drives, ratios: [least, most], dates: [since, newest] } = self;
        let times = match (format!("{least:.1}"), format!("{most:.1}")) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        let noun = if kind == Kind::Ssd { "SSD" } else { "disk" };
        format!("{} for sale cost {times} times as much on {newest} as on {since}", counted(*drives as u64, noun))
    }
}

/// Returns how much more or less the drives of a kind cost that have a price newer than `after`,
/// and an older price that counts; `None` if there is no such drive.
pub fn rise(kind: Kind, after: Date) -> Option<Rise> {
    let of_row = |row: Row<'static>| {
        let price = row.price()?;
        let since: Date = price.date.parse().ok()?;
        let (newer, date) = row.newer_price(since)?;
        (date.first_day() > after.first_day()).then_some((newer / price.usd, since, date))
    };
    let newer: Vec<(f64, Date, Date)> = rows().filter(|row| row.drive.kind == kind).filter_map(of_row).collect();
    let ratios = || newer.iter().map(|(ratio, ..)| *ratio);
    Some(Rise {
        drives: newer.len(),
        ratios: [ratios().reduce(f64::min)?, ratios().reduce(f64::max)?],
        dates: [
            newer.iter().map(|(_, since, _)| *since).min_by_key(|date| date.first_day())?,
            newer.iter().map(|(.., date)| *date).max_by_key(|date| date.first_day())?,
        ],
    })
}

/// Returns the TB that a hard disk of `model` with `bytes` is rated to read and write in a year,
/// and true if this rating has no source; `None` if no rating is known.
pub(crate) fn rated_tb_per_year(model: &str, bytes: u64) -> Option<(f64, bool)> {
    let row = row_of(model, bytes)?;
    let rated = row.drive.figures.workload_tb_per_year.as_ref()?.get(row.size)?;
    let is_unverified = row.drive.provenance.is_unverified("workload_tb_per_year", Some(&row.drive.sizes[row.size]));
    Some((rated, is_unverified))
}

/// Returns the drive of `model`, by any of its names, that is sold with `bytes`.
fn row_of(model: &str, bytes: u64) -> Option<Row<'static>> {
    let wanted = slug(model);
    rows().find(|row| {
        let is_model = is_named(row.drive, &wanted) || slug(&row.name()) == wanted;
        is_model && is_nominal(Bytes(bytes), row.drive.sizes[row.size].bytes)
    })
}

/// Returns true if `model`, by any of its names, is the model of the drive `name`, or this drive
/// itself.
pub(crate) fn is_named_as(name: &str, model: &str) -> bool {
    let (name, wanted) = (slug(name), slug(model));
    let is_it = |row: Row| {
        let size = format!("-{}", slug(&row.drive.sizes[row.size].text));
        let base = wanted.strip_suffix(&size).unwrap_or(&wanted);
        slug(&row.name()) == name && is_named(row.drive, base)
    };
    rows().any(is_it)
}

/// Returns the profile of `drive` in the size at `size`.
///
/// # Errors
/// Refuses a drive for which there is no model, with the reason, and figures that no drive can
/// have.
pub fn profile(drive: &Drive, size: usize) -> Result<Profile, String> {
    let row = Row { drive, size };
    let text = row.table(row.name())?.to_string();
    Profile::parse(&text, &row.name()).map_err(|error| error.to_string())
}

/// Returns a name in the form of names for commands: `Samsung 990 Pro 1 TB` as
/// `samsung-990-pro-1tb`.
pub(super) fn slug(text: &str) -> String {
    let letters = text.chars().map(|letter| if letter.is_alphanumeric() || letter == '.' { letter } else { ' ' });
    let lower = letters.collect::<String>().to_lowercase();
    let mut words: Vec<&str> = lower.split_whitespace().collect();
    // A unit belongs to the number before it.
    let units: Vec<usize> = (1..words.len()).filter(|&at| UNITS.contains(&words[at])).collect();
    let mut text = String::new();
    for (at, word) in words.drain(..).enumerate() {
        if at > 0 && !units.contains(&at) {
            text.push('-');
        }
        text.push_str(word);
    }
    text
}

/// Returns true if `wanted` names a drive by its name or by the name under which it is sold.
fn is_named(drive: &Drive, wanted: &str) -> bool {
    slug(&drive.name) == wanted || slug(&drive.model) == wanted
}

impl Row<'static> {
    /// Returns the row of `name` and the name of its profile: with the size in `name`, or with the
    /// smallest size if `name` has none.
    fn find(name: &str) -> Option<(Self, String)> {
        let wanted = slug(name);
        let sized = |row: &Row| {
            let base = wanted.strip_suffix(&format!("-{}", slug(&row.drive.sizes[row.size].text)));
            base.is_some_and(|base| is_named(row.drive, base))
        };
        let of_size = rows().find(sized).map(|row| (row.name(), row));
        let of_any = || rows().find(|row| is_named(row.drive, &wanted)).map(|row| (row.drive.name.clone(), row));
        of_size.or_else(of_any).map(|(name, row)| (row, name))
    }
}

impl Row<'_> {
    /// Returns the newest price in dollars, with the date, if it is newer than `date`.
    fn newer_price(&self, date: Date) -> Option<(f64, Date)> {
        let lists = self.drive.prices.iter().filter(|list| list.usd.is_some());
        let prices = lists.filter_map(|list| Some((list.amount(self.size)?, list.date?)));
        let newest = prices.max_by_key(|(_, date)| date.first_day());
        newest.filter(|(_, newest)| newest.first_day() > date.first_day())
    }

    /// Returns the offer of the drive; `None` without a price in dollars, or without a model.
    fn offer(&self) -> Option<Offer> {
        let Price { usd, date, source } = self.price()?;
        let profile = profile(self.drive, self.size).ok()?;
        let size = profile.capacity.bytes();
        // The cells are those of the row: the model of a row without cells has cells of three bits.
        let cells = self.drive.figures.cell.map_or("flash", Cell::word).to_owned();
        Some(Offer {
            model: self.name(),
            kind: self.drive.kind,
            size,
            bought: size,
            drives: 1,
            usd,
            date,
            source,
            cell: (self.drive.kind == Kind::Ssd).then_some(cells),
        })
    }

    fn name(&self) -> String {
        format!("{}-{}", self.drive.name, slug(&self.drive.sizes[self.size].text))
    }

    fn figure(&self, figure: Option<&PerSize>) -> Option<f64> {
        figure.and_then(|figure| figure.get(self.size))
    }

    /// Returns the rate for the size of the drive. If the row has no rate of this size, returns the
    /// rate of the nearest size that has such a rate; of two equally near sizes, of the larger.
    fn rate(&self, rate: &Option<PerSize>) -> Option<f64> {
        let rate = rate.as_ref()?;
        let sizes = (0..self.drive.sizes.len()).filter(|size| rate.get(*size).is_some());
        let next = sizes.min_by_key(|size| (size.abs_diff(self.size), *size < self.size));
        next.and_then(|size| rate.get(size))
    }

    /// Returns the price in dollars of the list that counts.
    fn price(&self) -> Option<Price> {
        let dollars = |list: &&super::figures::Price| list.usd.is_some();
        self.drive.price_lists().into_iter().filter(dollars).find_map(|list| {
            let date = list.date.map(|date| date.to_string()).unwrap_or_default();
            let source = list.sources.clone().unwrap_or_default().join(", ");
            let source = if source.is_empty() { "unverified".to_owned() } else { source };
            Some(Price { usd: list.amount(self.size)?, date, source })
        })
    }

    /// Returns the share of drives that fail in a year, in percent: the share in a fleet, or
    /// otherwise the maker's figure.
    fn failures_percent(&self) -> Option<f64> {
        let figures = &self.drive.figures;
        let by_maker = || self.figure(figures.afr_percent.as_ref());
        let by_mtbf = || self.figure(figures.mtbf_hours.as_ref()).map(|hours| 100.0 * HOURS_A_YEAR / hours);
        self.figure(figures.field_afr_percent.as_ref()).or_else(by_maker).or_else(by_mtbf)
    }

    /// Returns the name of the built-in profile that stands for the drive's construction; an error
    /// if there is none.
    fn template(&self) -> Result<&'static str, String> {
        let figures = &self.drive.figures;
        if self.drive.kind == Kind::Hdd {
            let by_host = figures.recording == Some(Recording::HostManagedSmr);
            let reason = || "its host must write each zone in order, for which there is no model".to_owned();
            return (!by_host).then_some("seagate-exos-x18-18tb").ok_or_else(reason);
        }
        let interface = figures.interface.clone().unwrap_or_default();
        Ok(match figures.cell {
            Some(Cell::XPoint) => return Err("its cells are 3D XPoint, for which there is no model".to_owned()),
            Some(Cell::Qlc) if interface.contains("SATA") => "samsung-870-qvo-1tb",
            Some(Cell::Qlc) => "intel-660p-1tb",
            _ if figures.write_rates == Some(WriteRates::Steady) => "samsung-pm983-960gb",
            _ => "samsung-970-evo-plus-500gb",
        })
    }

    /// Returns the profile as a table of TOML.
    fn table(&self, name: String) -> Result<Table, String> {
        let template = self.template()?;
        let built_in = Profile::load(template).map_err(|error| error.to_string())?;
        let mut table: Table =
            built_in.figures().filter_map(|(key, value, _)| Some((key.to_owned(), parsed(&value)?))).collect();
        let mut set = |key: &str, value: Value| _ = table.insert(key.to_owned(), value);
        let size = &self.drive.sizes[self.size];
        set("name", name.into());
        set("kind", built_in.kind().into());
        let model = &self.drive.model;
        set("summary", format!("{model} {}: its data sheet over the construction of {template}", size.text).into());
        if let Some(price) = self.price() {
            set("price_usd", price.usd.into());
            set("price_date", price.date.into());
            set("price_source", price.source.into());
        }
        if let Some(percent) = self.failures_percent() {
            set("afr_percent", percent.into());
        }
        set("capacity", Value::Integer(sold_as(size.bytes).0 as i64));
        let sources = self.drive.provenance.sources_of("sizes").join(", ");
        if !sources.is_empty() {
            set("sources", Table::from_iter([("capacity".to_owned(), Value::from(sources))]).into());
        }
        match &built_in.body {
            Body::Flash(template) => self.set_flash(template, &mut table)?,
            Body::Hdd(template) => self.set_disk(template, &mut table),
            Body::Cloud(_) => return Err(format!("{template} is a cloud volume")),
        }
        Ok(table)
    }

    /// Returns the rates of an SSD's row.
    fn rates(&self, mapping_unit: u64) -> Rates {
        let figures = &self.drive.figures;
        let one = |iops: &Option<PerSize>, us: &Option<PerSize>| {
            self.rate(iops).map(|iops| 1e6 / iops).or_else(|| self.rate(us))
        };
        Rates {
            capacity_bytes: sold_as(self.drive.sizes[self.size].bytes).0 as f64,
            mapping_unit_bytes: mapping_unit as f64,
            is_burst: figures.write_rates != Some(WriteRates::Steady),
            sequential_read_mb_per_s: self.rate(&figures.sequential_read_mb_per_s),
            sequential_write_mb_per_s: self.rate(&figures.sequential_write_mb_per_s),
            sustained_write_mb_per_s: self.rate(&figures.sustained_write_mb_per_s),
            random_read_iops: self.rate(&figures.random_read_iops),
            random_write_iops: self.rate(&figures.random_write_iops),
            read_us: one(&figures.qd1_read_iops, &figures.read_latency_us),
            write_us: one(&figures.qd1_write_iops, &figures.write_latency_us),
        }
    }

    fn set_flash(&self, template: &FlashProfile, table: &mut Table) -> Result<(), String> {
        let figures = &self.drive.figures;
        let unit = mapping_unit(&self.drive.sizes[self.size], self.figure(figures.mapping_unit_bytes.as_ref()))?;
        let made = flash::construct(&self.rates(unit.0), template);
        let mut set = |key: &str, value: Value| _ = table.insert(key.to_owned(), value);
        set("mapping_unit", size_text(unit.0 as f64));
        set("planes_per_die", Value::Integer(1));
        set("dies_per_channel", Value::Integer(made.dies_per_channel.into()));
        set("page_size", size_text(made.page_bytes));
        set("write_buffer", size_text(made.write_buffer_bytes));
        set("slc_cache", made.single_bit_cache.map_or_else(|| "off".into(), |(bytes, _)| size_text(bytes)));
        for (key, value) in &made.figures {
            set(key, (*value).into());
        }
        if let Some((_, us)) = made.single_bit_cache {
            set("slc_program_us", us.into());
        }
        for (key, figure) in [
            ("warranted_terabytes_written", &figures.tbw_tb),
            ("warranted_drive_writes_per_day", &figures.dwpd),
            ("warranty_years", &figures.warranty_years),
            ("active_watts", &figures.active_w),
            ("idle_watts", &figures.idle_w),
        ] {
            if let Some(value) = self.figure(figure.as_ref()) {
                set(key, value.into());
            }
        }
        if let Some(protection) = figures.power_loss_protection {
            let is_full = protection == PowerLossProtection::Full;
            set("power_loss_protection", if is_full { "on" } else { "off" }.into());
        }
        // A row has one of both; the template's own terabytes are those of another size.
        let has_terabytes = self.figure(figures.tbw_tb.as_ref()).is_some();
        let unwanted = if has_terabytes { "warranted_drive_writes_per_day" } else { "warranted_terabytes_written" };
        table.remove(unwanted);
        Ok(())
    }

    fn set_disk(&self, template: &HddProfile, table: &mut Table) {
        let figures = &self.drive.figures;
        let mut set = |key: &str, value: Value| _ = table.insert(key.to_owned(), value);
        let actuators = self.figure(figures.actuators.as_ref()).unwrap_or(1.0).max(1.0);
        if actuators > 1.0 {
            set("actuators", Value::Integer(actuators as i64));
        }
        if figures.recording == Some(Recording::DriveManagedSmr) {
            set("recording", "smr".into());
            for (key, value) in SHINGLED {
                set(key, parsed(value).unwrap_or_else(|| value.into()));
            }
        }
        if let Some(rate) = self.rate(&figures.sequential_read_mb_per_s).map(|rate| rate / actuators) {
            set("outer_mb_per_s", rate.into());
            set("inner_mb_per_s", (rate * INNER_SHARE).into());
        }
        let writes = self.rate(&figures.random_write_iops).unwrap_or(DISK_WRITES) / actuators;
        let rpm = self.figure(figures.rpm.as_ref()).unwrap_or(template.rpm);
        set("destage_window", Value::Integer(destage_window(writes, rpm, template.head_switch_ms)));
        if let Some(reads) = self.rate(&figures.random_read_iops) {
            let depth = self.rate(&figures.random_depth).unwrap_or(DISK_DEPTH) / actuators;
            let share = seek_share(1000.0 * actuators / reads, depth, rpm);
            for (key, own) in [
                ("seek_track_to_track_ms", template.seek_track_to_track_ms),
                ("seek_average_ms", template.seek_average_ms),
                ("seek_full_stroke_ms", template.seek_full_stroke_ms),
                ("write_seek_track_to_track_ms", template.write_seek_track_to_track_ms),
                ("write_seek_average_ms", template.write_seek_average_ms),
                ("write_seek_full_stroke_ms", template.write_seek_full_stroke_ms),
            ] {
                if let Some(ms) = own {
                    set(key, (ms * share).into());
                }
            }
        }
        for (key, figure) in
            [("rpm", &figures.rpm), ("active_watts", &figures.active_w), ("idle_watts", &figures.idle_w)]
        {
            if let Some(value) = self.figure(figure.as_ref()) {
                set(key, if key == "rpm" { Value::Integer(value as i64) } else { value.into() });
            }
        }
        if let Some(mb) = self.figure(figures.cache_mb.as_ref()) {
            set("cache", format!("{mb}MiB").into());
        }
    }
}

/// Returns the capacity of a drive that is sold as `size`: makers count its sectors from the
/// nominal gigabytes by a common rule (LBA1-03).
fn sold_as(size: Bytes) -> Bytes {
    const SMALLEST: u64 = 50;
    let gigabytes = size.0 / 1_000_000_000;
    if gigabytes < SMALLEST { size } else { Bytes((97_696_368 + 1_953_504 * (gigabytes - SMALLEST)) * 512) }
}

/// Returns the mapping unit of the model of a drive of `size`: `own` or 4 KiB, or the next larger
/// unit with which the model can number all units of the flash.
fn mapping_unit(size: &Size, own: Option<f64>) -> Result<Bytes, String> {
    const MOST: u64 = 1 << 20;
    let own = own.map_or(4096, |bytes| (bytes as u64).max(512));
    let flash = sold_as(size.bytes).0.checked_next_power_of_two().unwrap_or(u64::MAX);
    let units = std::iter::successors(Some(own), |unit| Some(2 * unit)).take_while(|unit| *unit <= MOST);
    let unit = units.into_iter().find(|unit| flash / unit < u64::from(u32::MAX) / 8 * 7);
    unit.map(Bytes).ok_or_else(|| format!("it has {}, a size for which there is no model", size.text))
}

/// Returns the number of cached writes among which a disk chooses the one that its head reaches
/// first, by its rate of random writes. With n cached writes the disk waits for 1 / (n + 1) of a
/// turn after the move to another track.
fn destage_window(writes_per_s: f64, rpm: f64, move_ms: f64) -> i64 {
    const MOST: f64 = 64.0;
    let turn_ms = 60_000.0 / rpm;
    let wait_ms = (1000.0 / writes_per_s - move_ms).max(turn_ms / MOST);
    (turn_ms / wait_ms - 1.0).round().max(1.0) as i64
}

/// Returns the seek times of a disk whose arm serves a random read in `read_ms` with `depth` under
/// way, as a share of those of the built-in disk.
///
/// The model of that disk needs 5.78 ms with 16 reads under way at 7200 revolutions a minute. With
/// seek times of 0.6 to 1.2 of its own, depths of 4 to 32, and 5400 revolutions, the powers below
/// give the time that it needs within 6 %.
fn seek_share(read_ms: f64, depth: f64, rpm: f64) -> f64 {
    const OWN_MS: f64 = 5.78;
    let own_ms = OWN_MS * (depth / DISK_DEPTH).powf(-1.0 / 3.0) * (7200.0 / rpm).powf(0.25);
    (read_ms / own_ms).powf(4.0 / 3.0).clamp(0.2, 3.0)
}

/// Returns a size as a profile takes it, in whole KiB.
fn size_text(bytes: f64) -> Value {
    format!("{}KiB", (bytes / 1024.0).round()).into()
}

/// Returns a value as a profile shows it, read as TOML.
fn parsed(value: &str) -> Option<Value> {
    format!("value = {value}").parse::<Table>().ok()?.remove("value")
}

/// Returns the text of the profile of a drive on sale; `None` if no drive has the name, or an error
/// if the drive has no model.
fn profile_text(name: &str) -> Option<Result<String, String>> {
    // A plan loads the profiles of its drives for each option.
    static KNOWN: RwLock<BTreeMap<(usize, String), Result<String, String>>> = RwLock::new(BTreeMap::new());
    // A file that is added may change what a name stands for.
    let key = (OWN.read().unwrap_or_else(PoisonError::into_inner).len(), name.to_owned());
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Some(known.clone());
    }
    let text = text_of(name)?;
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(key, text.clone());
    Some(text)
}

fn text_of(name: &str) -> Option<Result<String, String>> {
    let drive = Row::find(name).map(|(row, name)| row.table(name).map(|table| table.to_string()));
    drive.or_else(|| cloud::profile_text(name))
}

/// Returns the names of all drives, with and without their sizes.
fn names() -> Vec<String> {
    let drives = files().into_iter().flat_map(|file| file.drives.iter().map(|drive| drive.name.clone()));
    drives.chain(rows().map(|row| row.name())).chain(cloud::names()).collect()
}

/// Returns the sizes in which the drive of `name` is on sale, with their prices; empty for a name
/// with a size, because such a name is one drive.
pub fn sizes_on_sale(name: &str) -> Vec<OnSale> {
    let wanted = slug(name);
    let sizes = rows().filter(|row| is_named(row.drive, &wanted)).filter_map(|row| {
        let (size, profile) = (sold_as(row.drive.sizes[row.size].bytes), Some(row.name()));
        Some(OnSale { model: name.to_owned(), size, price: row.price()?, profile })
    });
    sizes.chain(cloud::sizes_on_sale(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_prices_are_told_with_their_ratio() {
        let dates: [Date; 2] = ["2025-07", "2026-02"].map(|text| text.parse().unwrap());
        let text = "2 SSDs for sale cost 1.5 to 2.2 times as much on 2026-02 as on 2025-07";
        assert_eq!(Rise { drives: 2, ratios: [1.505, 2.18], dates }.told(Kind::Ssd), text);
        let text = "1 disk for sale cost 0.9 times as much on 2026-02 as on 2025-07";
        assert_eq!(Rise { drives: 1, ratios: [0.9; 2], dates }.told(Kind::Hdd), text);
    }
    use crate::drives::import;
    use bimetal_models::endurance::Endurance;
    use bimetal_models::profile::Body;

    fn profile(name: &str) -> Profile {
        let text = profile_text(name).expect("a row").unwrap_or_else(|reason| panic!("{name}: {reason}"));
        Profile::parse(&text, name).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn every_drive_on_sale_has_a_model_or_a_reason() {
        let (mut made, mut refused) = (0, 0);
        for row in rows() {
            match profile_text(&row.name()).expect("its own name") {
                Ok(text) => {
                    let profile = Profile::parse(&text, &row.name()).unwrap_or_else(|error| panic!("{error}\n{text}"));
                    assert!(profile.build(None, 0).is_ok(), "{}", row.name());
                    made += 1;
                }
                Err(reason) => {
                    assert!(reason.ends_with("which there is no model"), "{reason}");
                    refused += 1;
                }
            }
        }
        assert!(made > 100 && refused > 0, "{made} made, {refused} refused");
    }

    #[test]
    fn drive_is_found_by_the_name_under_which_it_is_sold() {
        let found = profile("Samsung 990 Pro 2TB");
        assert_eq!((found.name.as_str(), found.capacity.bytes().0), ("samsung-990-pro-2tb", 2_000_398_934_016));
        let smallest = profile("Samsung 990 PRO");
        assert_eq!((smallest.name.as_str(), smallest.capacity.bytes().0), ("samsung-990-pro", 1_000_204_886_016));
        for name in ["samsung 990 PRO 2 TB", "samsung-990-pro-2tb", "Samsung_990_PRO_2tb"] {
            assert_eq!(profile(name).name, found.name, "{name}");
        }
        assert!(profile_text("samsung-990-pro-3tb").is_none() && profile_text("").is_none());
        assert_eq!(sizes_on_sale("Samsung 990 PRO").len(), 3);
        assert!(sizes_on_sale("samsung-990-pro-2tb").is_empty());
    }

    /// A user's drive is found by its name, and has a model as a built-in drive has.
    #[test]
    fn drive_of_a_file_of_the_user_is_found_by_its_name() {
        let text = "model,kind,size,tbw_tb,price_usd,price_date\nAcme Rocket,ssd,2TB,1200,99,2026-11\n";
        let file = import::from_csv(text, "acme.csv").expect("a table");
        let found = offers(&file);
        assert_eq!((found.len(), found[0].model.as_str(), found[0].usd), (1, "acme-rocket-2tb", 99.0));
        assert!(profile_text("acme-rocket-2tb").is_none());
        add_file(file.clone());
        add_file(file);
        assert_eq!(profile("Acme Rocket 2TB").capacity.bytes(), found[0].size);
        assert_eq!(sizes_on_sale("acme-rocket").len(), 1, "a file counts once");
    }

    /// Regression: a drive whose row names no cells was offered as TLC, and so was a drive of MLC.
    #[test]
    fn offer_has_the_cells_of_its_row_or_none() {
        let cells_of = |cell: &str| {
            let text = format!("model,kind,size,cell,tbw_tb,price_usd,price_date\nX 1,ssd,1TB,{cell},600,90,2026-11\n");
            let file = import::from_csv(&text, "x.csv").expect("a table");
            offers(&file)[0].cell.clone().expect("an SSD has cells")
        };
        assert_eq!(["", "MLC", "TLC", "QLC"].map(cells_of), ["flash", "MLC", "TLC", "QLC"]);
    }

    /// The row of a drive for data centres has drive writes a day and no terabytes written.
    #[test]
    fn warranted_writes_are_those_of_the_row() {
        let warranted = |name: &str| {
            let profile = profile(name);
            Endurance::of(&profile, profile.capacity).unwrap().warranted.unwrap() / 1e12
        };
        assert!((warranted("samsung-990-pro-4tb") - 2400.0).abs() < 1.0);
        let by_day = warranted("micron-5400-pro-960gb");
        assert!((by_day - 1.5 * 0.960 * 365.0 * 5.0).abs() < 5.0, "{by_day}");
    }

    /// The times of the model equal those of the data sheet: a read of 4 KiB at a time, and writes
    /// that exceed the cache.
    #[test]
    fn model_has_the_times_of_the_data_sheet() {
        let Body::Flash(flash) = profile("samsung-870-evo-1tb").body else { panic!("it is flash") };
        let moved = 4096.0 / flash.channel_mb_per_s + 4096.0 / flash.link_mb_per_s;
        let read = flash.read_us + flash.read_overhead_us + flash.command_us + moved;
        assert!((read - 1e6 / 13_000.0).abs() < 0.5, "{read} us");
        assert!(flash.link_mb_per_s < 600.0);
        let disk = profile("seagate-exos-x24-24tb");
        assert!(disk.hdd().is_some_and(|disk| disk.outer_mb_per_s == Some(285.0)));
        let two = profile("seagate-exos-2x18-sata-18tb");
        let figures = two.hdd().map(|disk| (disk.actuators, disk.outer_mb_per_s));
        assert_eq!(figures, Some((2, Some(277.0))), "the row's rate is that of both actuators");
    }
}
