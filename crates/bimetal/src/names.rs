//! Names that a user types, of schemes and of trace formats. An unknown name is refused with the
//! nearest known name.

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_sim::scheme_choice::SchemeChoice;
use bimetal_trace::{Format, formats};

use crate::error::Error;

/// Returns the schemes in a list of names. `all` means every scheme that makes one device of an SSD
/// and an HDD, and each of the two drives alone.
///
/// # Errors
/// No scheme has one of the names; the nearest name is suggested.
pub(crate) fn schemes_named(list: &str) -> Result<Vec<&'static SchemeInfo>, Error> {
    if list == "all" {
        return Ok(schemes::ALL.to_vec());
    }
    let names = list.split(',').map(str::trim);
    names.map(|name| schemes::find(name).ok_or_else(|| unknown_scheme(name))).collect()
}

/// Returns the schemes in the list of `flag`, each with the settings after its name:
/// `griffin,griffin:timeout=30s`. `all` stands for the same schemes as in [`schemes_named`].
///
/// # Errors
/// No scheme has one of the names, a scheme refuses a setting, or two entries are equal.
pub(crate) fn schemes_chosen(flag: &str, list: &str) -> Result<Vec<SchemeChoice>, Error> {
    let mut chosen: Vec<SchemeChoice> = Vec::new();
    for entry in entries(list) {
        let refuse = |reason: String| Error::new(format!("{flag} {entry}: {reason}"));
        let choices = match entry.split_once(':') {
            None => schemes_named(&entry)?.into_iter().map(SchemeChoice::from).collect(),
            Some((name, settings)) => {
                let name = name.trim();
                let scheme = schemes::find(name).ok_or_else(|| unknown_scheme(name))?;
                let settings = own_settings(settings).map_err(refuse)?;
                vec![SchemeChoice::new(scheme, settings).map_err(|error| refuse(error.to_string()))?]
            }
        };
        for choice in choices {
            if chosen.iter().any(|other| other.is_equal(&choice)) {
                return Err(Error::new(format!(
                    "{flag} {list}: {choice} stands twice in the list: expected each entry once; entries of one scheme \
                     differ in settings, as {0},{0}:KEY=VALUE",
                    choice.scheme.name
                )));
            }
            chosen.push(choice);
        }
    }
    Ok(chosen)
}

/// Returns the entries of a list. A part that begins with a digit belongs to the value before it:
/// a comma also stands between ranges of addresses, and no scheme's name begins with a digit.
fn entries(list: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim) {
        match entries.last_mut() {
            Some(entry) if part.starts_with(|c: char| c.is_ascii_digit()) => *entry += &format!(",{part}"),
            _ => entries.push(part.to_owned()),
        }
    }
    entries
}

/// Returns the settings after the name of a scheme, as `timeout=30s:admission=n-hit:2`. A part
/// without `=` belongs to the value before it.
///
/// # Errors
/// Returns a text that says what was expected.
fn own_settings(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for part in text.split(':').map(str::trim) {
        match (part.split_once('='), settings.last_mut()) {
            (Some((key, value)), _) if !key.is_empty() => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                if settings.iter().any(|(other, _)| *other == key) {
                    return Err(format!("{key} is set twice: expected one value"));
                }
                settings.push((key, value));
            }
            (None, Some((_, value))) => *value += &format!(":{part}"),
            _ => return Err("expected KEY=VALUE after a colon, like griffin:timeout=30s".to_owned()),
        }
    }
    Ok(settings)
}

fn unknown_scheme(name: &str) -> Error {
    Error::unknown("scheme", name, schemes::every().map(|info| info.name))
}

/// Returns the trace format called `name`.
///
/// # Errors
/// No format has the name; the nearest name is suggested.
pub(crate) fn format_named(name: &str) -> Result<&'static Format, Error> {
    formats::find(name)
        .ok_or_else(|| Error::unknown("trace format", name, formats::ALL.iter().map(|format| format.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Result<Vec<String>, String> {
        let chosen = schemes_chosen("--schemes", list).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(SchemeChoice::to_string).collect())
    }

    #[test]
    fn entry_of_a_list_has_settings_of_its_own() {
        let list = "griffin, griffin:timeout=30s : read_window=50,hdd-only";
        assert_eq!(chosen(list).unwrap(), ["griffin", "griffin:timeout=30s:read_window=50", "hdd-only"]);
        let all = chosen("all,griffin:timeout=30s").unwrap();
        assert_eq!((all.len(), all.last().map(String::as_str)), (schemes::ALL.len() + 1, Some("griffin:timeout=30s")));
    }

    #[test]
    fn value_with_colons_and_commas_is_one_value() {
        let list = "hybrid-disk:pin=0-1MiB,4MiB-5MiB:flush=idle,smq:admission=n-hit:2";
        let entries = ["hybrid-disk:pin=0-1MiB,4MiB-5MiB:flush=idle", "smq:admission=n-hit:2"];
        assert_eq!(chosen(list).unwrap(), entries);
    }

    #[test]
    fn entry_that_stands_twice_is_refused() {
        for list in ["griffin,griffin", "all,smq", "smq:admission=all,griffin,smq:admission=all"] {
            let message = chosen(list).unwrap_err();
            assert!(message.contains(" stands twice in the list: expected each entry once"), "{message}");
        }
        let message = chosen("griffin:timeout=30s:timeout=60s").unwrap_err();
        assert!(message.ends_with("timeout is set twice: expected one value"), "{message}");
    }
}
