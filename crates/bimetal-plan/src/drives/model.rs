//! Profiles of drives on sale, by name: the model of a row of `drives/`.
//!
//! A row has the figures of a data sheet and no geometry. So the profile of a row is that of a
//! built-in drive of its kind, with every figure that the row has in place of the drive's own:
//!
//! | row | profile |
//! |---|---|
//! | `sizes` | `capacity`: the sectors that makers give a nominal size |
//! | `tbw_tb`, or `dwpd`; `warranty_years` | the warranted writes |
//! | `sequential_read_mb_per_s` | rate of the link; outer rate of a disk |
//! | `sustained_write_mb_per_s`; for data centres the sequential rate | time to program a page |
//! | `random_read_iops`, `random_write_iops` | time of a command, by the higher rate |
//! | `qd1_read_iops` or `read_latency_us` | overhead of a read, or time to sense a page |
//! | `qd1_write_iops` or `write_latency_us` | overhead of a write |
//! | `actuators` | the actuators; each has its share of the rate |
//! | `recording` | `DM-SMR`: a staging area and bands |
//! | `rpm`, `cache_mb`, powers, prices | the figures of the same meaning |
//! | `field_afr_percent`, `afr_percent` or `mtbf_hours` | the share of drives that fail in a year |
//!
//! Disks whose host manages the shingles, and drives of 3D XPoint, have no model and are refused.

use std::sync::OnceLock;

use bimetal_core::units::Bytes;
use bimetal_models::profile::{Further, Price, Profile};
use bimetal_sim::market::OnSale;
use bimetal_sim::ownership::HOURS_A_YEAR;
use toml::{Table, Value};

use super::figures::{PerSize, PowerLossProtection, Recording};
use super::{Drive, DriveFile, built_in, cloud};
use crate::catalogue::Kind;

/// Profiles of the catalogue, for [`Profile::add_further`].
pub const CATALOGUE: Further = Further { text: profile_text, names };

/// Class of drives with power-loss protection and steady rates of writes.
const DATACENTRE: &str = "datacentre-ssd";

/// Time to move 4 KiB over the channel and the link of today's drives, in µs.
const TRANSFER_US: f64 = 4.0;

/// Share of a disk's outer rate that its innermost tracks have: the ratio of their radii.
const INNER_SHARE: f64 = 0.46;

/// Units in names.
const UNITS: [&str; 5] = ["gb", "tb", "gib", "tib", "iops"];

/// Construction of a shingled disk, of which no data sheet tells: its staging area, its bands, and
/// the idle time before it cleans. General knowledge that nobody has checked.
const SHINGLED: [(&str, &str); 3] = [("staging_area", "24GiB"), ("band", "32MiB"), ("clean_after_s", "1")];

/// A drive in one size.
struct Row {
    file: &'static DriveFile,
    drive: &'static Drive,
    size: usize,
}

pub(super) fn files() -> &'static [DriveFile] {
    static FILES: OnceLock<Vec<DriveFile>> = OnceLock::new();
    FILES.get_or_init(built_in)
}

fn rows() -> impl Iterator<Item = Row> {
    let of_drive = |file, drive: &'static Drive| (0..drive.sizes.len()).map(move |size| Row { file, drive, size });
    files().iter().flat_map(move |file| file.drives.iter().flat_map(move |drive| of_drive(file, drive)))
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

/// Returns true if `wanted` names a drive by its name or by that under which it is sold.
fn is_named(drive: &Drive, wanted: &str) -> bool {
    slug(&drive.name) == wanted || slug(&drive.model) == wanted
}

impl Row {
    fn name(&self) -> String {
        format!("{}-{}", self.drive.name, slug(&self.drive.sizes[self.size].text))
    }

    /// Returns the row of `name` and the name of its profile: with a size the row of that size,
    /// without one the smallest.
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

    fn figure(&self, figure: Option<&PerSize>) -> Option<f64> {
        figure.and_then(|figure| figure.get(self.size))
    }

    /// Returns the newest price in dollars.
    fn price(&self) -> Option<Price> {
        let dollars = |list: &&super::figures::Price| list.usd.is_some();
        let lists = self.drive.prices.iter().rev().filter(dollars);
        lists.into_iter().find_map(|list| {
            let date = list.date.map(|date| date.to_string()).unwrap_or_default();
            let source = list.sources.clone().unwrap_or_default().join(", ");
            let source = if source.is_empty() { "unverified".to_owned() } else { source };
            Some(Price { usd: list.amount(self.size)?, date, source })
        })
    }

    /// Returns the share of drives that fail in a year, in percent: that of a fleet, or else the
    /// maker's.
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
        let cell =
            figures.cell.map(|cell| Value::try_from(cell).map_or_else(|_| String::new(), |cell| cell.to_string()));
        let interface = figures.interface.clone().unwrap_or_default();
        Ok(match cell.unwrap_or_default().trim_matches('"') {
            "3D XPoint" => return Err("its cells are 3D XPoint, for which there is no model".to_owned()),
            "QLC" if interface.contains("SATA") => "samsung-870-qvo-1tb",
            "QLC" => "intel-660p-1tb",
            _ if self.file.name == DATACENTRE => "samsung-pm983-960gb",
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
        match self.drive.kind {
            Kind::Ssd => {
                set("mapping_unit", mapping_unit(sold_as(size.bytes))?.into());
                self.set_flash(&built_in, &mut table);
            }
            Kind::Hdd => self.set_disk(&mut table),
        }
        Ok(table)
    }

    fn set_flash(&self, template: &Profile, table: &mut Table) {
        let figures = &self.drive.figures;
        let own = |key: &str| {
            let mut found = template.figures().filter(|(known, ..)| *known == key);
            found.next().and_then(|(_, value, _)| value.parse::<f64>().ok()).unwrap_or(0.0)
        };
        let mut set = |key: &str, value: f64| _ = table.insert(key.to_owned(), value.into());
        let mut rate = own("command_us");
        let most = [&figures.random_read_iops, &figures.random_write_iops];
        if let Some(iops) = most.into_iter().filter_map(|iops| self.figure(iops.as_ref())).reduce(f64::max) {
            rate = 1e6 / iops;
            set("command_us", rate);
        }
        if let Some(link) = self.figure(figures.sequential_read_mb_per_s.as_ref()) {
            set("link_mb_per_s", link);
            set("channel_mb_per_s", own("channel_mb_per_s").max(1.2 * link / own("channels")));
        }
        let one = |iops: &Option<PerSize>, us: &Option<PerSize>| {
            self.figure(iops.as_ref()).map(|iops| 1e6 / iops).or_else(|| self.figure(us.as_ref()))
        };
        if let Some(us) = one(&figures.qd1_read_iops, &figures.read_latency_us) {
            let sense = own("read_us").min((us - rate - TRANSFER_US).max(1.0));
            set("read_us", sense);
            set("read_overhead_us", (us - rate - TRANSFER_US - sense).max(0.0));
        }
        if let Some(us) = one(&figures.qd1_write_iops, &figures.write_latency_us) {
            set("write_overhead_us", (us - rate - TRANSFER_US).max(0.0));
        }
        let steady = figures.sequential_write_mb_per_s.as_ref().filter(|_| self.file.name == DATACENTRE);
        if let Some(mb_per_s) = self.figure(figures.sustained_write_mb_per_s.as_ref().or(steady)) {
            let planes = own("channels") * own("dies_per_channel") * own("planes_per_die");
            set("program_us", planes * 16_384.0 / mb_per_s);
        }
        for (key, figure) in [
            ("warranted_terabytes_written", &figures.tbw_tb),
            ("warranted_drive_writes_per_day", &figures.dwpd),
            ("warranty_years", &figures.warranty_years),
            ("active_watts", &figures.active_w),
            ("idle_watts", &figures.idle_w),
        ] {
            if let Some(value) = self.figure(figure.as_ref()) {
                set(key, value);
            }
        }
        // A row has one of both; the template's own terabytes are those of another size.
        let has_terabytes = self.figure(figures.tbw_tb.as_ref()).is_some();
        let unwanted = if has_terabytes { "warranted_drive_writes_per_day" } else { "warranted_terabytes_written" };
        table.remove(unwanted);
        if let Some(protection) = figures.power_loss_protection {
            let is_full = protection == PowerLossProtection::Full;
            table.insert("power_loss_protection".to_owned(), if is_full { "on" } else { "off" }.into());
        }
    }

    fn set_disk(&self, table: &mut Table) {
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
        if let Some(rate) = self.figure(figures.sequential_read_mb_per_s.as_ref()).map(|rate| rate / actuators) {
            set("outer_mb_per_s", rate.into());
            set("inner_mb_per_s", (rate * INNER_SHARE).into());
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

/// Returns the smallest mapping unit with which the model of a drive can number all units.
fn mapping_unit(size: Bytes) -> Result<&'static str, String> {
    let units = [("4KiB", 4096), ("8KiB", 8192), ("16KiB", 16_384)];
    let unit = units.into_iter().find(|(_, bytes)| size.0 / bytes < u64::from(u32::MAX) - 1);
    let reason = || format!("it has {size}, a size for which there is no model");
    unit.map(|(name, _)| name).ok_or_else(reason)
}

/// Returns a value as a profile shows it, read as TOML.
fn parsed(value: &str) -> Option<Value> {
    format!("value = {value}").parse::<Table>().ok()?.remove("value")
}

/// Returns the text of the profile of a drive on sale; `None` if no drive has the name, an error if
/// the drive has no model.
fn profile_text(name: &str) -> Option<Result<String, String>> {
    let drive = Row::find(name).map(|(row, name)| row.table(name).map(|table| table.to_string()));
    drive.or_else(|| cloud::profile_text(name))
}

/// Returns the names of all drives, with and without their sizes.
fn names() -> Vec<String> {
    let drives = files().iter().flat_map(|file| file.drives.iter().map(|drive| drive.name.clone()));
    drives.chain(rows().map(|row| row.name())).chain(cloud::names()).collect()
}

/// Returns the sizes in which the drive of `name` is on sale, with their prices; empty for a name
/// with a size, which is that one drive.
pub fn sizes_on_sale(name: &str) -> Vec<OnSale> {
    let wanted = slug(name);
    let sizes = rows().filter(|row| is_named(row.drive, &wanted)).filter_map(|row| {
        Some(OnSale { model: name.to_owned(), size: row.drive.sizes[row.size].bytes, price: row.price()? })
    });
    sizes.chain(cloud::sizes_on_sale(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// The times of the model are those of the data sheet: a read of 4 KiB at a time, and writes
    /// beyond the cache.
    #[test]
    fn model_has_the_times_of_the_data_sheet() {
        let Body::Flash(flash) = profile("samsung-870-evo-1tb").body else { panic!("it is flash") };
        let read = flash.read_us + flash.read_overhead_us + flash.command_us + TRANSFER_US;
        assert!((read - 1e6 / 13_000.0).abs() < 0.5, "{read} us");
        assert!(flash.link_mb_per_s < 600.0);
        let disk = profile("seagate-exos-x24-24tb");
        assert!(disk.hdd().is_some_and(|disk| disk.outer_mb_per_s == Some(285.0)));
        let two = profile("seagate-exos-2x18-sata-18tb");
        let figures = two.hdd().map(|disk| (disk.actuators, disk.outer_mb_per_s));
        assert_eq!(figures, Some((2, Some(277.0))), "the row's rate is that of both actuators");
    }
}
