//! Reads DiskSim's parameter files of a drive, and writes them as a profile.
//!
//! A `.diskspecs` file holds the electronics and names the `.model` file. The `.model` file holds
//! layout and mechanics and names the `.seek` file with the points of the seek curve (DiskSim 4.0
//! Reference Manual, CMU-PDL-08-101). `parser.rs` parses the syntax of the files, and `fields.rs`
//! looks up figures in the files. `layout.rs` and `electronics.rs` write the profile's parts, and
//! `unused.rs` lists the settings that were ignored.
//!
//! Four traps. The declared number of blocks may be too small or too large, so the zones count. A
//! settle time may be negative. The bus rate may be in another file, and must then be given. Zones
//! may omit cylinders.

mod electronics;
mod fields;
mod layout;
mod parser;
mod unused;

use std::fmt::Write as _;
use std::path::Path;

use bimetal_core::units::Sectors;
use toml::Value as Toml;

use super::profile::HddProfile;
use crate::profile::Profile;
use fields::{Fields, one_block};

/// Reasons for which a drive's parameter files are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskspecsError {
    /// A file could not be read.
    #[error("{file}: {reason}{}", .named_in.as_ref().map(|by| format!(" (named in {by})")).unwrap_or_default())]
    Unreadable {
        /// Name of the file.
        file: String,
        /// Error of the system.
        reason: String,
        /// File that names the unreadable file.
        named_in: Option<String>,
    },
    /// A file does not have the form of a parameter file.
    #[error("{file}:{line}: '{found}': expected {expected}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Number of the line.
        line: usize,
        /// Text of the line.
        found: String,
        /// Text that was expected.
        expected: String,
    },
    /// A figure is missing.
    #[error("{file}:{line}: '{key}' is missing in this block: expected {expected}")]
    Missing {
        /// Name of the file.
        file: String,
        /// First line of the block that lacks the figure.
        line: usize,
        /// Key of the figure.
        key: String,
        /// Value that the key should have.
        expected: String,
    },
    /// A figure is impossible for a drive, or unknown to this model.
    #[error("{file}:{line}: {key} = {value}: expected {expected}")]
    Figure {
        /// Name of the file.
        file: String,
        /// Number of the line.
        line: usize,
        /// Key of the figure.
        key: String,
        /// Value of the key.
        value: String,
        /// Value that the key should have.
        expected: String,
    },
    /// The bus rate is in another file, and was not given.
    #[error(
        "{file}: Bulk sector transfer time = 0, so the file lacks the bus rate: give it with --bus-ms-per-sector R, \
         or R,W for reads and writes, in milliseconds a sector of 512 bytes"
    )]
    BusRate {
        /// Name of the file.
        file: String,
    },
    /// The figures do not make a usable drive.
    #[error("{file}: the profile made from it cannot be used: {reason}")]
    Unusable {
        /// Name of the file.
        file: String,
        /// Reason that the check of the profile gives.
        reason: String,
    },
}

/// Milliseconds that the bus takes for a sector, for reads and writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BusTimes {
    /// Milliseconds for a sector that is read.
    pub read_ms: f64,
    /// Milliseconds for a sector that is written.
    pub write_ms: f64,
}

/// Drive imported from its parameter files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Profile of the drive, as TOML.
    pub profile: String,
    /// Lines about the settings that the model ignores, with file, line, key and value.
    pub passed_over: Vec<String>,
}

/// Imports the drive that the `.diskspecs` file at `path` describes. `bus` overrides the bus rate
/// in the file, and is required if that value is 0.
///
/// # Errors
/// Refuses a file that cannot be read or is not a parameter file, a figure that is missing or
/// impossible, and an unsupported feature.
pub fn import(path: &Path, bus: Option<BusTimes>) -> Result<Imported, DiskspecsError> {
    let file = path.display().to_string();
    let specs = one_block(&read(path, None)?, &file, "disksim_disk")?;
    let specs = Fields::new(&specs, &file);
    let model_path = path.with_file_name(specs.source("Model")?);
    let model_file = model_path.display().to_string();
    let model = one_block(&read(&model_path, Some(&file))?, &model_file, "dm_disk")?;
    let model = Fields::new(&model, &model_file);
    let seek_text = match layout::seek_file(&model)? {
        Some(name) => {
            let seek_path = path.with_file_name(name);
            Some((read(&seek_path, Some(&model_file))?, seek_path.display().to_string()))
        }
        None => None,
    };
    let mut draft = Draft::default();
    let zones =
        layout::write(&model, seek_text.as_ref().map(|(text, file)| (text.as_str(), file.as_str())), &mut draft)?;
    let controller = electronics::write(&specs, bus, &mut draft)?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let profile = finish(&name, &specs.block.name, &draft, &format!("{controller}{zones}"), &file)?;
    let mut passed_over = unused::warnings(specs.block, &file);
    passed_over.extend(unused::warnings(model.block, &model_file));
    Ok(Imported { profile, passed_over })
}

fn read(path: &Path, named_in: Option<&str>) -> Result<String, DiskspecsError> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| {
        DiskspecsError::Unreadable {
            file: path.display().to_string(),
            reason: error.to_string(),
            named_in: named_in.map(str::to_owned),
        }
    })
}

/// Plain figures of a profile to be written: key, value, source.
#[derive(Debug, Default)]
struct Draft {
    figures: Vec<(&'static str, Toml, String)>,
}

impl Draft {
    fn set(&mut self, key: &'static str, value: impl Into<Toml>, source: impl Into<String>) {
        self.figures.push((key, value.into(), source.into()));
    }
}

/// Puts the text of the profile together, and checks that a model can be built from the profile.
/// The capacity is the sum of the zones.
fn finish(stem: &str, model: &str, draft: &Draft, tables: &str, file: &str) -> Result<String, DiskspecsError> {
    let text_with = |capacity: u64| {
        let mut text = format!(
            "# Figures out of the DiskSim 4.0 validation parameter files (Carnegie Mellon University), without \
             warranty.\nname = {}\nkind = \"hdd\"\nsummary = {}\n\ncapacity = {capacity}\n",
            Toml::from(format!("disksim-{}", stem.strip_suffix("_validate").unwrap_or(stem))),
            Toml::from(format!(
                "{}, from DiskSim's parameter files",
                model.trim_end_matches("_validate").replace('_', " ")
            ))
        );
        let mut sources = format!(
            "\n[sources]\ncapacity = \"sum of the zones; the declared block count is not relied on\"\n{}",
            "controller = \"electronics of the .diskspecs file\"\nzones = \"zones of the .model file\"\n"
        );
        for (key, value, source) in &draft.figures {
            let _ = writeln!(text, "{key} = {value}");
            let _ = writeln!(sources, "{key} = {}", Toml::from(source.as_str()));
        }
        text + tables + &sources
    };
    let unusable = |reason: String| DiskspecsError::Unusable { file: file.to_owned(), reason };
    let probe = Profile::parse(&text_with(512), stem).map_err(|error| unusable(error.to_string()))?;
    let capacity = probe.hdd().map_or(Ok(Sectors(1)), HddProfile::sectors_of_zones);
    let text = text_with(capacity.map_err(|bad| unusable(bad.expected))?.bytes().0);
    Profile::parse(&text, stem).map_err(|error| unusable(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_with_the_one_that_names_it() {
        let directory = std::env::temp_dir().join(format!("bimetal-diskspecs-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("drive.diskspecs");
        std::fs::write(&path, "disksim_disk D {\n Model = source other.model\n}\n").unwrap();
        let error = import(&path, None).unwrap_err().to_string();
        assert!(error.contains("other.model") && error.contains("drive.diskspecs"), "{error}");
        let error = import(&directory.join("none.diskspecs"), None).unwrap_err().to_string();
        assert!(error.contains("none.diskspecs"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
