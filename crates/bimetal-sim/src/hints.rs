//! Evictions of a host's buffer cache, or pins of a host, that were recorded beside the requests: which runs take them, and in what
//! order with requests.
//!
//! A hint is told before the requests of its moment, and after everything that was due before. Hints behind the last request
//! have no request to be of use to, and are left untold.

use std::collections::BTreeMap;

use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::units::Sectors;
use bimetal_core::volume::Volume;
use bimetal_trace::{Hint, Hints};

use crate::setup::{Choices, SetupError};

/// The parameter of schemes that move blocks when a host evicts them.
const PARAMETER: &str = "eviction_hint";

/// The parameter of schemes that keep on flash what a host pins.
const PIN_PARAMETER: &str = "pin";

/// Whether a scheme has a use for `hints`.
pub(crate) fn has_use(scheme: &SchemeInfo, hints: &Hints) -> bool {
    let wanted = if hints.are_pins() { PIN_PARAMETER } else { PARAMETER };
    scheme.parameters.iter().any(|parameter| parameter.name == wanted)
}

/// The hints that a run is told: all or none, and each within the volume.
///
/// # Errors
/// The scheme has a use for hints and its settings have not, or a hint is of no device of the trace or beyond the volume.
pub(crate) fn of_run(
    scheme: &'static SchemeInfo,
    volume: &Volume<NoPayload>,
    units: &BTreeMap<u32, u16>,
    choices: &Choices,
) -> Result<Hints, SetupError> {
    let hints = &choices.hints;
    if hints.is_empty() || !has_use(scheme, hints) {
        return Ok(Hints::default());
    }
    if !hints.are_pins() && !volume.takes_evictions() {
        return Err(SetupError::HintsInVain { scheme: scheme.name });
    }
    let total = Sectors(volume.units().map(|unit| unit.0).sum());
    for hint in hints.iter() {
        check(hints, hint, units, total, choices.is_part)?;
    }
    Ok(hints.clone())
}

fn check(
    hints: &Hints,
    hint: &Hint,
    units: &BTreeMap<u32, u16>,
    total: Sectors,
    is_part: bool,
) -> Result<(), SetupError> {
    if !is_part && !units.contains_key(&hint.device) {
        let known = units.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return Err(hints.refuse(hint, "device", hint.device, format!("a device of the trace ({known})")).into());
    }
    if hint.range.end() > total {
        let expected = format!("the range to end within the volume's {} sectors", total.0);
        return Err(hints.refuse(hint, "sectors", hint.range.len.0, expected).into());
    }
    Ok(())
}
