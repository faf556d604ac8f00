//! Names that a user types, of schemes and of trace formats. An unknown name is refused with the
//! nearest known name.

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::schemes;
use bimetal_trace::{Format, formats};

use crate::error::Error;

/// Returns the schemes in a list of names. `all` means every scheme that makes one device of an SSD
/// and an HDD, and each of the two drives alone.
///
/// # Errors
/// A name is no scheme; the nearest is suggested.
pub(crate) fn schemes_named(list: &str) -> Result<Vec<&'static SchemeInfo>, Error> {
    if list == "all" {
        return Ok(schemes::ALL.to_vec());
    }
    let names = list.split(',').map(str::trim);
    names.map(|name| schemes::find(name).ok_or_else(|| unknown_scheme(name))).collect()
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
