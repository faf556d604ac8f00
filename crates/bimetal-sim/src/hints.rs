//! Hints that were recorded beside the requests: evictions of a host's buffer cache, or pins of a
//! host. This module decides which runs use the hints, and in which order with the requests.
//!
//! A hint reaches the volume before the requests of the same time, and after all events that were
//! due before. Hints after the last request would have no effect on any request, so the volume
//! never gets them.

use std::collections::BTreeMap;

use bimetal_core::payload::NoPayload;
use bimetal_core::scheme::SchemeInfo;
use bimetal_core::settings::Settings;
use bimetal_core::units::Sectors;
use bimetal_core::volume::Volume;
use bimetal_trace::{Hint, Hints};

use crate::host::{EVICTION_HINT, simulated_cache};
use crate::setup::{Choices, SetupError};

/// Parameter of schemes that keep on flash the blocks that a host pins.
const PIN_PARAMETER: &str = "pin";

/// Returns true if a scheme can use `hints`.
pub(crate) fn has_use(scheme: &SchemeInfo, hints: &Hints) -> bool {
    let wanted = if hints.are_pins() { PIN_PARAMETER } else { EVICTION_HINT };
    scheme.parameters.iter().any(|parameter| parameter.name == wanted)
}

/// Returns the hints of a run: all hints or no hints, and each hint within the volume.
///
/// # Errors
/// Fails if the scheme can use hints, but not with its settings. Fails as well if a hint names an
/// unknown device, or lies beyond the volume.
pub(crate) fn of_run(
    settings: &Settings,
    scheme: &'static SchemeInfo,
    volume: &Volume<NoPayload>,
    units: &BTreeMap<u32, u16>,
    choices: &Choices,
) -> Result<Hints, SetupError> {
    let hints = &choices.hints;
    if hints.is_empty() || !has_use(scheme, hints) {
        return Ok(Hints::default());
    }
    if !hints.are_pins() && simulated_cache(settings).is_some() {
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
