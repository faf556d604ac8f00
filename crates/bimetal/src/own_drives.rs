//! Drives of the user: files that `~/.config/bimetal/config.toml` names. The drives in these files
//! are found by name, like the built-in drives of the catalogue.
//!
//! ```toml
//! catalog = ["drives.toml"]
//! ```
//!
//! A file has the form that `bimetal catalog import` writes. A relative path begins at the folder
//! of the configuration.

use std::path::{Path, PathBuf};

use bimetal_plan::drives::{load, model};
use serde::Deserialize;

use crate::error::Error;
use crate::output::note;

/// The user's configuration.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Files of drives.
    #[serde(default)]
    catalog: Vec<PathBuf>,
}

/// Returns the path of the user's configuration: below `$XDG_CONFIG_HOME`, or `~/.config`.
fn path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let full = |name| variable(name).filter(|path| path.is_absolute());
    let folder = full("XDG_CONFIG_HOME").or_else(|| Some(full("HOME")?.join(".config")))?;
    Some(folder.join("bimetal/config.toml"))
}

/// Makes the user's drives known by their names. A file that cannot be used is a note: no command
/// needs it that does not name one of its drives.
pub(crate) fn add() {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(path) = path(variable).filter(|path| path.exists())
        && let Err(error) = add_those_of(&path)
    {
        note(error);
    }
}

fn add_those_of(path: &Path) -> Result<(), Error> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Error::new(format!("{}: {}", path.display(), error.to_string().trim_end().replace('\n', " ")))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
    let Config { catalog } = toml::from_str(&text).map_err(|error| wrong(path, &error))?;
    for file in catalog {
        let file = path.parent().unwrap_or(Path::new("/")).join(file);
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(&file, &error))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        model::add_file(load::parse(&text, &name).map_err(|error| wrong(&file, &error))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_lies_below_the_folder_of_the_user() {
        let of = |config: Option<&str>, home: Option<&str>| {
            path(|name| if name == "HOME" { home } else { config }.map(PathBuf::from))
        };
        let file = |path: &str| Some(PathBuf::from(path));
        assert_eq!(of(Some("/c"), Some("/h")), file("/c/bimetal/config.toml"));
        assert_eq!(of(None, Some("/h")), file("/h/.config/bimetal/config.toml"));
        assert_eq!(of(Some("relative"), Some("/h")), file("/h/.config/bimetal/config.toml"));
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn wrong_configuration_is_named_with_its_file() {
        let folder = std::env::temp_dir().join(format!("bimetal-own-drives-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = folder.join("config.toml");
        for (text, expected) in [
            ("catalogue = []", "config.toml: "),
            ("catalog = ['missing.toml']", "missing.toml: No such file"),
            ("catalog = ['config.toml']", "config.toml: "),
        ] {
            std::fs::write(&config, text).expect("a file");
            let error = add_those_of(&config).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
