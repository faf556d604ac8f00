//! Drives and cloud volumes of the catalogue, as a table, in full and in JSON.

use std::fmt::Write as _;

use bimetal_models::spelling::nearest;
use bimetal_plan::answer::without_size;
use bimetal_plan::catalogue::{COMMON, COMMON_CLASS, Kind};
use bimetal_plan::drives::date::Date;
use bimetal_plan::drives::figures::PerSize;
use bimetal_plan::drives::{CloudVolume, Drive, DriveFile, Provenance, kind_text};
use serde_json::{Value, json};

use crate::error::Error;
use crate::sheet::{Cell, Sheet};

/// Mark of a figure without a source.
const UNVERIFIED: &str = "?";

/// An entry of the catalogue with its class.
pub enum Entry<'a> {
    /// A drive.
    Drive(&'a DriveFile, &'a Drive),
    /// A cloud volume.
    Volume(&'a DriveFile, &'a CloudVolume),
}

impl<'a> Entry<'a> {
    /// Returns the entries of `files`.
    pub fn all(files: impl IntoIterator<Item = &'a DriveFile>) -> Vec<Self> {
        let of_file = |file: &'a DriveFile| {
            let drives = file.drives.iter().map(move |drive| Self::Drive(file, drive));
            drives.chain(file.volumes.iter().map(move |volume| Self::Volume(file, volume)))
        };
        files.into_iter().flat_map(of_file).collect()
    }

    fn name(&self) -> &'a str {
        match self {
            Self::Drive(_, drive) => &drive.name,
            Self::Volume(_, volume) => &volume.name,
        }
    }

    fn model(&self) -> &'a str {
        match self {
            Self::Drive(_, drive) => &drive.model,
            Self::Volume(_, volume) => &volume.model,
        }
    }

    fn file(&self) -> &'a DriveFile {
        match self {
            Self::Drive(file, _) | Self::Volume(file, _) => file,
        }
    }
}

/// Returns the entry of this name, the common drives, the entries of a class of this name, or the
/// entries whose names contain the name.
///
/// # Errors
/// Returns an error if no entry and no class has the name.
pub fn chosen<'a>(mut entries: Vec<Entry<'a>>, name: Option<&str>) -> Result<Vec<Entry<'a>>, Error> {
    let Some(name) = name else { return Ok(entries) };
    let wanted = name.to_lowercase();
    let known: Vec<&str> = entries.iter().map(Entry::name).collect();
    let mut classes: Vec<&str> = entries.iter().map(|entry| entry.file().name.as_str()).collect();
    classes.dedup();
    if wanted == COMMON_CLASS {
        entries.retain(|entry| COMMON.contains(&entry.name()));
    } else if known.contains(&wanted.as_str()) {
        entries.retain(|entry| entry.name() == wanted);
    } else if classes.contains(&wanted.as_str()) {
        entries.retain(|entry| entry.file().name == wanted);
    } else {
        let has = |entry: &Entry, wanted: &str| {
            let wanted = plain(wanted);
            !wanted.is_empty() && [entry.name(), entry.model()].into_iter().any(|name| plain(name).contains(&wanted))
        };
        // An entry has all sizes of its model.
        let wanted = if entries.iter().any(|entry| has(entry, name)) { name } else { without_size(name) };
        entries.retain(|entry| has(entry, wanted));
    }
    if entries.is_empty() {
        let near = nearest(&wanted, classes.into_iter().chain(known));
        let near = near.map(|near| format!(" did you mean '{near}'?")).unwrap_or_default();
        return Err(Error::new(format!(
            "unknown drive or class '{name}':{near} expected a name, a part of a model's name, or a class; \
             `bimetal catalog show` lists all drives"
        )));
    }
    Ok(entries)
}

/// Returns a note if `name` ends with a size in which no drive of `entries` is sold.
pub fn missing_size(entries: &[Entry<'_>], name: &str) -> Option<String> {
    let size = name[without_size(name).len()..].trim_start_matches(['-', ' ']);
    let sizes = entries.iter().flat_map(|entry| match entry {
        Entry::Drive(_, drive) => drive.sizes.as_slice(),
        Entry::Volume(..) => &[],
    });
    let sizes: Vec<String> = sizes.map(|size| size.text.clone()).collect();
    let is_known = size.is_empty() || sizes.is_empty() || sizes.iter().any(|known| plain(known) == plain(size));
    (!is_known).then(|| format!("no drive of this name has {size}: the sizes are {}", sizes.join(", ")))
}

/// Returns the letters and digits of a name, in small letters: the same for `WD Blue SN5000 500GB`
/// and `wd-blue-sn5000-500-gb`.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the age of a price in days. An age from a month or a year begins with "~".
fn age(date: Date, today: i64) -> String {
    format!("{}{}", if date.is_exact() { "" } else { "~" }, date.age_days(today))
}

/// Returns `text`, with the mark if the figure is unverified.
fn marked(text: &str, is_unverified: bool) -> String {
    format!("{text}{}", if is_unverified { UNVERIFIED } else { "" })
}

/// A row of the table, a cell for each column of [`HEADING`].
type Row = [String; 7];

const HEADING: [&str; 7] = ["model", "kind", "size", "price", "age (days)", "endurance", "PLP"];

/// Returns the entries as a table, with a row for each size.
pub fn table(entries: &[Entry<'_>], today: i64) -> String {
    let mut rows: Vec<Row> = vec![HEADING.map(str::to_owned)];
    for entry in entries {
        match entry {
            Entry::Drive(_, drive) => rows.extend((0..drive.sizes.len()).map(|at| size_row(drive, at, today))),
            Entry::Volume(_, volume) => rows.push(volume_row(volume, today)),
        }
    }
    align_marks(&mut rows);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, width))| match at {
            2..=5 => format!("{cell:>width$}"),
            _ => format!("{cell:width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(
        text,
        "\nMarks: {UNVERIFIED} no source, – not known, ~ counted from the first day of a month or year, \
         ≥ counted from the reading of an undated list"
    );
    text
}

/// Pads the cells without a mark, in right-aligned columns that have marks.
fn align_marks(rows: &mut [Row]) {
    for column in 2..=5 {
        if rows.iter().any(|row| row[column].ends_with(UNVERIFIED)) {
            let without = rows.iter_mut().filter(|row| !row[column].ends_with(UNVERIFIED));
            without.for_each(|row| row[column].push(' '));
        }
    }
}

fn size_row(drive: &Drive, at: usize, today: i64) -> Row {
    let (size, figures, origins) = (&drive.sizes[at], &drive.figures, &drive.provenance);
    let unknown = || "–".to_owned();
    let (price, age) = match drive.price(at) {
        Some((list, amount)) => {
            let price = marked(&format!("{}{amount}", list.sign()), list.unverified == Some(true));
            (price, list.date.map_or_else(unknown, |date| age(date, today)))
        }
        None => (unknown(), unknown()),
    };
    let plp = figures.power_loss_protection.map(|plp| json!(plp).as_str().unwrap_or_default().to_owned());
    let plp = plp.map(|plp| marked(&plp, origins.is_unverified("power_loss_protection", Some(size))));
    let media = match drive.kind {
        Kind::Ssd => ("cell", figures.cell.map(|cell| json!(cell))),
        Kind::Hdd => ("recording", figures.recording.map(|recording| json!(recording))),
    };
    let media = match &media {
        (key, Some(Value::String(word))) => format!(" {}", marked(word, origins.is_unverified(key, Some(size)))),
        _ => String::new(),
    };
    let endurance = match (drive.endurance(at), figures.workload_tb_per_year.as_ref().and_then(|tb| tb.get(at))) {
        (Some((text, is_unverified)), _) => marked(&text, is_unverified),
        (None, Some(tb)) => marked(&format!("{tb} TB/year"), origins.is_unverified("workload_tb_per_year", Some(size))),
        (None, None) => unknown(),
    };
    [
        drive.model.clone(),
        format!("{}{media}", kind_text(drive.kind)),
        marked(&size.text, origins.is_unverified("sizes", Some(size))),
        price,
        age,
        endurance,
        plp.unwrap_or_else(unknown),
    ]
}

/// Returns the price of a cloud volume: the key of its figure, the unit in words, and the amount.
fn price_of(volume: &CloudVolume) -> Option<(&'static str, &'static str, f64)> {
    let figures = &volume.figures;
    let prices = [
        ("usd_per_gb_month", "/GB month", &figures.usd_per_gb_month),
        ("usd_per_gib_month", "/GiB month", &figures.usd_per_gib_month),
        ("usd_per_month", "/month", &figures.usd_per_month),
    ];
    prices.into_iter().find_map(|(key, unit, number)| Some((key, unit, number.as_ref().and_then(|all| all.get(0))?)))
}

fn volume_row(volume: &CloudVolume, today: i64) -> Row {
    let figures = &volume.figures;
    let unknown = || "–".to_owned();
    let price = price_of(volume)
        .map(|(key, unit, amount)| marked(&format!("${amount}{unit}"), volume.provenance.is_unverified(key, None)));
    let size = match (&figures.size_min, &figures.size_max) {
        (Some(min), Some(max)) if min == max => max.text.clone(),
        (Some(min), Some(max)) => format!("{}–{}", min.text, max.text),
        (_, Some(max)) => format!("–{}", max.text),
        _ => unknown(),
    };
    let age = match (&price, volume.price_date, volume.price_read) {
        (Some(_), Some(date), _) => age(date, today),
        (Some(_), None, Some(read)) => format!("≥{}", age(read, today)),
        _ => unknown(),
    };
    let kind = format!("cloud {}", kind_text(volume.kind));
    [volume.model.clone(), kind, size, price.unwrap_or_else(unknown), age, unknown(), unknown()]
}

/// Returns a row for each size of a drive, and for each cloud volume, in the order of the table.
/// `unverified` names the figures without a source.
pub(crate) fn sheet(entries: &[Entry<'_>], today: i64) -> Sheet {
    let mut sheet = Sheet::new([
        "class",
        "name",
        "model",
        "kind",
        "size_bytes",
        "price",
        "unit",
        "price_date",
        "price_age_days",
        "endurance",
        "power_loss_protection",
        "unverified",
    ]);
    for entry in entries {
        match entry {
            Entry::Drive(file, drive) => {
                (0..drive.sizes.len()).for_each(|at| sheet.push(row_of_size(&file.name, drive, at, today)));
            }
            Entry::Volume(file, volume) => sheet.push(row_of_volume(&file.name, volume, today)),
        }
    }
    sheet
}

fn row_of_size(class: &str, drive: &Drive, at: usize, today: i64) -> [Cell; 12] {
    let (size, origins) = (&drive.sizes[at], &drive.provenance);
    let price = drive.price(at);
    let date = price.and_then(|(list, _)| list.date);
    let plp = drive.figures.power_loss_protection.map(|plp| json!(plp).as_str().unwrap_or_default().to_owned());
    let of_price = price.is_some_and(|(list, _)| list.unverified == Some(true)).then_some("price");
    let of_size = origins.unverified.iter().filter_map(|entry| match entry.split_once('@') {
        None => Some(entry.as_str()),
        Some((key, of)) => (of == size.text).then_some(key),
    });
    [
        class.into(),
        drive.name.as_str().into(),
        drive.model.as_str().into(),
        kind_text(drive.kind).into(),
        size.bytes.0.into(),
        price.map(|(_, amount)| amount).into(),
        price.map_or("", |(list, _)| if list.eur.is_some() { "eur" } else { "usd" }).into(),
        date.map(|date| date.to_string()).unwrap_or_default().into(),
        date.map(|date| date.age_days(today) as f64).into(),
        drive.endurance(at).map(|(text, _)| text).unwrap_or_default().into(),
        plp.unwrap_or_default().into(),
        of_size.chain(of_price).collect::<Vec<_>>().join(" ").into(),
    ]
}

fn row_of_volume(class: &str, volume: &CloudVolume, today: i64) -> [Cell; 12] {
    let figures = &volume.figures;
    let price = price_of(volume);
    let date = volume.price_date.or(volume.price_read);
    [
        class.into(),
        volume.name.as_str().into(),
        volume.model.as_str().into(),
        format!("cloud {}", kind_text(volume.kind)).into(),
        figures.size_max.as_ref().map(|size| size.bytes.0).into(),
        price.map(|(_, _, amount)| amount).into(),
        price.map_or("", |(key, ..)| key).into(),
        date.map(|date| date.to_string()).unwrap_or_default().into(),
        date.map(|date| date.age_days(today) as f64).into(),
        "".into(),
        "".into(),
        volume.provenance.unverified.join(" ").into(),
    ]
}

/// Returns every figure of an entry with its sources, as text.
pub fn in_full(entry: &Entry<'_>, today: i64) -> String {
    let (figures, origins, note) = match entry {
        Entry::Drive(_, drive) => (drive.figures_in_order(), &drive.provenance, &drive.provenance.note),
        Entry::Volume(_, volume) => (volume.figures_in_order(), &volume.provenance, &volume.provenance.note),
    };
    let mut text = format!("\n{} ({}): {}\n\n", entry.name(), entry.file().name, entry.file().summary);
    let width = figures.iter().map(|(key, _)| key.name.len()).max().unwrap_or(0);
    for (key, value) in &figures {
        let _ = writeln!(text, "  {:width$}  {value}{}", key.name, origin(key.name, origins));
    }
    if let Entry::Drive(_, drive) = entry {
        for price in &drive.prices {
            let list = price.usd.as_ref().or(price.eur.as_ref());
            let amounts = list.map(numbers).unwrap_or_default();
            let (date, days) = price.date.map(|date| (date.to_string(), age(date, today))).unwrap_or_default();
            let names = price.sources.as_deref().unwrap_or_default();
            let source = if names.is_empty() { "unverified".to_owned() } else { names.join(", ") };
            let _ = writeln!(
                text,
                "  {:width$}  {}{amounts} on {date}, {days} days ago  ({source})",
                "price",
                price.sign()
            );
        }
    }
    if let Some(note) = note {
        let _ = writeln!(text, "\n{note}");
    }
    let used = used_sources(entry);
    if !used.is_empty() {
        text.push_str("\nSources:\n");
    }
    for name in used {
        let _ = writeln!(text, "  {name}: {}", entry.file().sources.get(name).map_or("", String::as_str));
    }
    text
}

fn numbers(list: &PerSize) -> String {
    match list {
        PerSize::All(number) => number.to_string(),
        PerSize::Each(numbers) => {
            let shown = numbers.iter().map(|number| number.map_or_else(|| "–".to_owned(), |number| number.to_string()));
            shown.collect::<Vec<_>>().join("/")
        }
    }
}

/// Returns the origin of a figure: the names of its sources, and the sizes without a source.
fn origin(key: &str, origins: &Provenance) -> String {
    if origins.is_unverified(key, None) {
        return "  (unverified)".to_owned();
    }
    let of_key = |entry: &&String| entry.split_once('@').is_some_and(|(of, _)| of == key);
    let sizes: Vec<&str> =
        origins.unverified.iter().filter(of_key).filter_map(|entry| Some(entry.split_once('@')?.1)).collect();
    let names = origins.sources_of(key).join(", ");
    match sizes.is_empty() {
        true => format!("  ({names})"),
        false => format!("  ({names}; unverified: {})", sizes.join(" ")),
    }
}

/// Returns the names of the sources of an entry, each once, in the order of their use.
fn used_sources<'a>(entry: &Entry<'a>) -> Vec<&'a str> {
    let (origins, prices) = match entry {
        Entry::Drive(_, drive) => (&drive.provenance, drive.prices.as_slice()),
        Entry::Volume(_, volume) => (&volume.provenance, [].as_slice()),
    };
    let of_prices = prices.iter().filter_map(|price| price.sources.as_ref()).flatten();
    let mut used: Vec<&str> = Vec::new();
    for name in origins.sources.iter().chain(origins.source_of.values().flatten()).chain(of_prices) {
        if !used.contains(&name.as_str()) {
            used.push(name);
        }
    }
    used
}

/// Returns an entry in JSON: the keys of the file, with sizes in bytes, the age of each price and
/// the texts of the sources.
pub fn to_json(entry: &Entry<'_>, today: i64) -> Value {
    let mut value = match entry {
        Entry::Drive(_, drive) => json!(drive),
        Entry::Volume(_, volume) => json!(volume),
    };
    let used = used_sources(entry).into_iter().map(|name| (name.to_owned(), json!(entry.file().sources.get(name))));
    value["class"] = json!(entry.file().name);
    value["source_texts"] = Value::Object(used.collect());
    match entry {
        Entry::Drive(_, drive) => {
            value["size_bytes"] = json!(drive.sizes.iter().map(|size| size.bytes.0).collect::<Vec<_>>());
            for (at, price) in drive.prices.iter().enumerate() {
                value["price"][at]["age_days"] = json!(price.date.map(|date| date.age_days(today)));
            }
        }
        Entry::Volume(_, volume) => {
            let days = |date: Option<Date>| json!(date.map(|date| date.age_days(today)));
            value["age_days"] = days(volume.price_date);
            value["age_days_min"] = days(volume.price_read);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use bimetal_plan::drives::built_in;

    use super::*;

    const DAY: i64 = 20_779; // 2026-11-22

    fn shown(name: &str) -> String {
        let files = built_in();
        table(&chosen(Entry::all(&files), Some(name)).unwrap(), DAY)
    }

    #[test]
    fn table_marks_unverified_figures_and_ages() {
        let lines: Vec<String> = shown("crucial-t500").lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "model         kind      size  price  age (days)  endurance   PLP");
        assert_eq!(lines[1], "Crucial T500  ssd TLC  500GB    $73         487    300 TBW?  none?");
        assert_eq!(lines[2], "Crucial T500  ssd TLC    1TB    $75         487    600 TBW   none?");
        let barracuda = shown("seagate-barracuda-24-tb");
        assert!(barracuda.contains("$500        ~325"), "{barracuda}");
        assert!(shown("aws-gp3").contains("$0.08/GB month          ≥0"), "{}", shown("aws-gp3"));
        assert!(shown("azure-premium-ssd-p30").contains("$148.68/month         235"), "{}", shown("azure"));
    }

    #[test]
    fn size_that_is_not_sold_is_named() {
        let files = built_in();
        let missing = |name: &str| missing_size(&chosen(Entry::all(&files), Some(name)).unwrap(), name);
        let note = "no drive of this name has 3TB: the sizes are 1TB, 2TB, 4TB";
        assert_eq!(missing("990 Pro 3TB").as_deref(), Some(note));
        for sold in ["990 Pro 2TB", "samsung-990-pro-2tb", "990 Pro", "aws-gp3"] {
            assert_eq!(missing(sold), None, "{sold}");
        }
    }

    #[test]
    fn name_chooses_a_drive_a_class_or_a_part() {
        let files = built_in();
        let count = |name: Option<&str>| chosen(Entry::all(&files), name).map(|entries| entries.len()).unwrap_or(0);
        let all = count(None);
        assert_eq!(count(Some("samsung-870-evo")), 1);
        assert_eq!(count(Some("Samsung 870 EVO 500GB")), 1, "a name as --ssd takes it");
        assert_eq!(count(Some("?")), 0, "no letter names nothing");
        assert_eq!(count(Some("dual-actuator-hdd")), files[5].drives.len());
        assert!((2..all).contains(&count(Some("Optane"))));
        let error = chosen(Entry::all(&files), Some("samsng-870-evo")).err().unwrap().to_string();
        assert!(
            error.starts_with("unknown drive or class 'samsng-870-evo': did you mean 'samsung-870-evo'?"),
            "{error}"
        );
    }

    #[test]
    fn json_has_ages_bytes_and_texts_of_sources() {
        let files = built_in();
        let entries = chosen(Entry::all(&files), Some("samsung-990-pro")).unwrap();
        let value = to_json(&entries[0], DAY);
        assert_eq!(value["price"][0]["age_days"], 487);
        assert_eq!(value["size_bytes"][0], 1_000_000_000_000_u64);
        assert_eq!(value["tbw_tb"], json!([600, 1200, 2400]));
        assert!(value["source_texts"]["mezha-990-pro"].as_str().unwrap().contains("mezha.media"));
    }

    #[test]
    fn full_text_names_the_origin_of_each_figure() {
        let files = built_in();
        let entries = chosen(Entry::all(&files), Some("crucial-t500")).unwrap();
        let text = in_full(&entries[0], DAY);
        assert!(text.contains("(pcspecchart-25-27, kitguru-t500; unverified: 500GB 2TB)"), "{text}");
        assert!(text.contains("warranty_years             5  (unverified)"), "{text}");
        assert!(text.contains("$73/75/125/300 on 2025-07-23, 487 days ago  (pcpartpicker-2025-07-23)"), "{text}");
    }
}
