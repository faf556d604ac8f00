//! Tests of the built-in files and of the messages about wrong ones.

use super::figures::{DRIVE_KEYS, PRICE_KEYS, VOLUME_KEYS};
use super::load::parse;
use super::*;

/// The loader itself refuses a figure without a source that is not listed as unverified.
#[test]
fn built_in_files_parse_with_over_40_models() {
    let files = built_in();
    assert_eq!(files.len(), 7);
    assert!(files.iter().all(|file| !file.summary.is_empty()));
    let drives: usize = files.iter().map(|file| file.drives.len()).sum();
    let volumes: usize = files.iter().map(|file| file.volumes.len()).sum();
    assert!(drives >= 40 && volumes >= 10, "{drives} drives and {volumes} volumes");
    let mut names: Vec<String> = Vec::new();
    for file in files {
        names.extend(file.drives.iter().map(|drive| drive.name.clone()));
        names.extend(file.volumes.iter().map(|volume| volume.name.clone()));
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "each name is used once");
}

/// Independent of the loader: counts from the text of the files.
#[test]
fn built_in_figures_are_sourced_or_unverified() {
    for (name, text) in BUILTIN {
        let root: toml::Table = text.parse().unwrap();
        let sources = root["sources"].as_table().unwrap();
        for list in ["drive", "volume"] {
            for entry in root.get(list).and_then(|list| list.as_array()).into_iter().flatten() {
                let keys: Vec<&str> = DRIVE_KEYS.iter().chain(VOLUME_KEYS).map(|key| key.name).collect();
                let texts = |key: &str| -> Vec<String> {
                    let list = entry.get(key).and_then(|list| list.as_array()).cloned().unwrap_or_default();
                    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
                };
                let (sourced, unverified) = (texts("sources"), texts("unverified"));
                assert!(sourced.iter().all(|source| sources.contains_key(source)), "{name}: {sourced:?}");
                for (key, _) in entry.as_table().unwrap().iter().filter(|(key, _)| keys.contains(&key.as_str())) {
                    let listed = unverified.contains(key);
                    let own = entry.get("source_of").and_then(|table| table.get(key)).is_some();
                    assert!(listed || own || !sourced.is_empty(), "{name}: {}: {key}", entry["name"]);
                    assert!(!(listed && own), "{name}: {}: {key} has a source", entry["name"]);
                }
            }
        }
    }
}

#[test]
fn built_in_sizes_ascend_and_lists_have_their_count() {
    for drive in built_in().iter().flat_map(|file| &file.drives) {
        assert!(drive.sizes.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{}", drive.name);
        let count = |numbers: &Option<figures::PerSize>| match numbers {
            Some(figures::PerSize::Each(numbers)) => numbers.len(),
            Some(figures::PerSize::All(_)) => 0,
            None => drive.sizes.len(),
        };
        assert_eq!(count(&drive.figures.tbw_tb), drive.sizes.len(), "{}", drive.name);
        for price in &drive.prices {
            assert_eq!(
                (count(&price.usd), count(&price.eur)),
                (drive.sizes.len(), drive.sizes.len()),
                "{}",
                drive.name
            );
            assert!(price.date.is_some_and(|date| (2022..=2026).contains(&date.to_string()[..4].parse().unwrap())));
        }
    }
}

/// No SSD and no disk stands in the wrong class.
#[test]
fn built_in_classes_hold_the_drives_they_name() {
    use figures::Recording;
    for file in built_in() {
        for drive in &file.drives {
            let is_ssd = drive.kind == Kind::Ssd;
            assert_eq!(is_ssd, file.name.ends_with("-ssd"), "{}", drive.name);
            let shingled = drive.figures.recording.is_some_and(|recording| recording != Recording::Cmr);
            assert_eq!(shingled, file.name == "smr-hdd", "{}", drive.name);
            let actuators = drive.figures.actuators.as_ref().and_then(|numbers| numbers.get(0)).unwrap_or(1.0);
            assert_eq!(actuators > 1.0, file.name == "dual-actuator-hdd", "{}", drive.name);
        }
    }
}

/// A drive of 1 TB was dearer than the same drive of 2 TB: its price was newer, and prices had
/// doubled in between.
#[test]
fn sizes_of_a_drive_have_prices_of_one_date() {
    let files = built_in();
    let drive = |name: &str| files.iter().flat_map(|file| &file.drives).find(|drive| drive.name == name).unwrap();
    let price = |name, index| drive(name).price(index).map(|(list, usd)| (list.date.unwrap().to_string(), usd));
    assert_eq!(price("samsung-990-pro", 0), Some(("2025-07-23".to_owned(), 100.0)));
    assert_eq!(price("samsung-990-pro", 1), Some(("2025-07-23".to_owned(), 150.0)));
    assert_eq!(price("samsung-990-pro", 3), None);
    // Of two lists with as many prices, the newer one counts.
    assert_eq!(price("seagate-barracuda-24-tb", 0), Some(("2026-01".to_owned(), 500.0)));
    // A size that only the shorter list has.
    assert_eq!(price("intel-optane-905p", 1).map(|(date, _)| date), Some("2023".to_owned()));
}

#[test]
fn unverified_size_of_a_sourced_figure_is_marked_alone() {
    let files = built_in();
    let drive = files[0].drives.iter().find(|drive| drive.name == "crucial-t500").unwrap();
    let marked: Vec<bool> = (0..4).map(|index| drive.endurance(index).unwrap().1).collect();
    assert_eq!(marked, [true, false, true, false]);
    assert_eq!(drive.endurance(3).unwrap().0, "2400 TBW");
    assert!(drive.provenance.sources_of("warranty_years").is_empty());
    assert_eq!(drive.provenance.sources_of("tbw_tb").len(), 2);
}

const GOOD: &str = r#"
[sources]
shop = "the shop"
[[drive]]
name = "x1"
model = "X 1"
kind = "ssd"
sizes = ["1TB", "2TB"]
tbw_tb = [600, "unknown"]
cell = "TLC"
sources = ["shop"]
unverified = ["cell"]
[[drive.price]]
usd = [90, 170]
date = "2026-11"
sources = ["shop"]
"#;

/// Returns the error message for the file `GOOD` with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1), "f.toml").unwrap_err().to_string()
}

#[test]
fn file_is_read_with_its_figures_and_prices() {
    let file = parse(GOOD, "f.toml").unwrap();
    let drive = &file.drives[0];
    assert_eq!(drive.price(1).unwrap().1, 170.0);
    assert_eq!(drive.endurance(0), Some(("600 TBW".to_owned(), false)));
    assert_eq!(drive.endurance(1), None);
    let again = toml::to_string(&file).unwrap();
    assert_eq!(parse(&again, "f.toml").unwrap(), file, "{again}");
}

#[test]
fn built_in_files_survive_being_written() {
    for file in built_in() {
        let text = toml::to_string(&file).unwrap();
        assert_eq!(parse(&text, &file.name).unwrap(), file);
    }
}

#[test]
fn wrong_values_are_named_with_drive_key_and_value() {
    for (from, to, message) in [
        (
            "600,",
            "\"many\",",
            "x1: tbw_tb = [\"many\", \"unknown\"]: expected a list with a number above 0 for each of sizes",
        ),
        ("600,", "-1,", "x1: tbw_tb = [-1, \"unknown\"]: expected a list with a number above 0 for each of sizes"),
        ("[600, \"unknown\"]", "[600]", "x1: tbw_tb = [600]: expected a list of 2, one for each of sizes"),
        ("[600, \"unknown\"]", "600", "x1: tbw_tb = 600: expected a list of 2, one for each of sizes"),
        ("[90, 170]", "[90]", "x1: price: usd = [90]: expected a list of 2, one for each of sizes"),
        (
            "\"1TB\", \"2TB\"",
            "\"2TB\", \"1TB\"",
            "x1: sizes = [2TB, 1TB]: expected at least one size, in ascending order",
        ),
        ("cell = \"TLC\"", "cell = \"XLC\"", "x1: cell = \"XLC\": expected SLC, MLC, TLC, QLC or 3D XPoint"),
        ("cell = \"TLC\"", "cel = \"TLC\"", "x1: cel = \"TLC\": expected a known key, such as cell"),
        ("cell = \"TLC\"", "rpm = 7200", "x1: rpm = 7200: expected no such key for ssd drives"),
        ("kind = \"ssd\"", "kind = \"disk\"", "x1: kind = disk: expected ssd or hdd"),
        (
            "name = \"x1\"",
            "",
            "[[drive]] 1: name is missing: expected lower-case letters, digits, points and hyphens, like samsung-990-pro",
        ),
        (
            "name = \"x1\"",
            "name = \"X 1\"",
            "X 1: name = X 1: expected lower-case letters, digits, points and hyphens, like samsung-990-pro",
        ),
        ("date = \"2026-11\"", "", "x1: price: date is missing: expected a date like 2026-11-22, 2026-11 or 2026"),
        ("2026-11", "2026-13", "x1: price: date = \"2026-13\": expected a date like 2026-11-22, 2026-11 or 2026"),
        ("tbw_tb = [600, \"unknown\"]", "", "x1: tbw_tb is missing: expected tbw_tb or dwpd of an SSD"),
    ] {
        assert_eq!(refused(from, to), format!("f.toml: {message}"));
    }
}

/// The date of a list, or the date on which a list without one was read: an age counts from either.
#[test]
fn volume_needs_one_date_for_its_prices() {
    let text = |dates: &str| {
        format!(
            "[[volume]]\nname = \"v\"\nmodel = \"V\"\nkind = \"ssd\"\nusd_per_month = 3\n{dates}\nunverified = [\"usd_per_month\"]"
        )
    };
    let refused = |dates: &str| parse(&text(dates), "f.toml").unwrap_err().to_string();
    let message = "f.toml: v: price_date is missing: expected either price_date or price_read, a date like 2026-11-22";
    assert_eq!(refused(""), message);
    assert_eq!(refused("price_date = \"2026\"\nprice_read = \"2026\""), message);
    assert!(refused("price_read = 3").ends_with("v: price_read = 3: expected a date like 2026-11-22, 2026-11 or 2026"));
    let volume = &parse(&text("price_read = \"2026-11\""), "f.toml").unwrap().volumes[0];
    assert_eq!((volume.price_date, volume.price_read.map(|date| date.to_string())), (None, Some("2026-11".to_owned())));
}

#[test]
fn figures_with_no_origin_or_with_two_are_refused() {
    let no_source = "x1: price: sources = []: expected at least one source, or unverified = true and no source";
    for (from, to, message) in [
        ("170]\ndate = \"2026-11\"\nsources = [\"shop\"]", "170]\ndate = \"2026-11\"", no_source),
        (
            "sources = [\"shop\"]\nunverified",
            "unverified",
            "x1: sizes = [\"1TB\", \"2TB\"]: expected a source (sources, source_of), or the key in unverified",
        ),
        (
            "sources = [\"shop\"]\nunverified",
            "sources = [\"web\"]\nunverified",
            "x1: sources = web: expected a name from [sources]",
        ),
        (
            "[\"cell\"]",
            "[\"cell\"]\nsource_of = { cell = [\"shop\"] }",
            "x1: source_of = cell: expected no source for a figure that is in unverified",
        ),
        (
            "[\"cell\"]",
            "[\"dwpd\"]",
            "x1: unverified = dwpd: expected a key of this entry or KEY@SIZE of a known figure, once",
        ),
        (
            "[\"cell\"]",
            "[\"tbw_tb@2TB\"]",
            "x1: unverified = tbw_tb@2TB: expected a key of this entry or KEY@SIZE of a known figure, once",
        ),
        (
            "[\"cell\"]",
            "[\"tbw_tb@4TB\"]",
            "x1: unverified = tbw_tb@4TB: expected a key of this entry or KEY@SIZE of a known figure, once",
        ),
    ] {
        assert_eq!(refused(from, to), format!("f.toml: {message}"));
    }
    let both = GOOD.replace("\"2026-11\"", "\"2026-11\"\nunverified = true");
    assert!(parse(&both, "f.toml").unwrap_err().to_string().contains("unverified = true and no source"));
    assert!(parse("", "f.toml").unwrap_err().to_string().ends_with("at least one [[drive]] or [[volume]]"));
    assert!(parse("x", "f.toml").unwrap_err().to_string().starts_with("f.toml: TOML parse error at line 1"));
}

#[test]
fn manual_explains_every_key() {
    let page = include_str!("../../../../docs/catalog.md");
    assert!(page.contains("`price_date`") && page.contains("`price_read`"));
    for key in DRIVE_KEYS.iter().chain(VOLUME_KEYS).chain(PRICE_KEYS) {
        assert!(page.contains(&format!("`{}`", key.name)), "docs/catalog.md does not explain {}", key.name);
    }
}

#[test]
fn examples_of_the_manual_are_read() {
    let page = include_str!("../../../../docs/catalog.md");
    let blocks = |language| page.split(language).skip(1).filter_map(|rest: &str| rest.split("```").next());
    let block = |language, with: &str| blocks(language).find(|block| block.contains(with)).unwrap();
    bimetal_models::profile::Profile::parse(block("```toml\n", "kind = \"cloud\""), "catalog.md").unwrap();
    let file = parse(block("```toml\n", "[[drive]]"), "catalog.md").unwrap();
    assert_eq!((file.drives.len(), file.drives[0].sizes.len()), (1, 2));
    let imported = import::from_csv(block("```csv\n", ","), "catalog.md").unwrap();
    assert_eq!(imported.drives[0].provenance.unverified, ["cell", "tbw_tb@2TB"]);
    assert_eq!(imported.drives[0].price(1).map(|(_, usd)| usd), Some(170.0));
}
