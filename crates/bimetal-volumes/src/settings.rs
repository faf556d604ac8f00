//! Settings of a volume that change after its creation: the rules for every change, and the labels
//! of a volume that a process holds.

use bimetal_core::label::Label;
use bimetal_core::layout::LayoutRequest;
use bimetal_core::scheme::{Scheme, SchemeError};
use bimetal_core::schemes;
use bimetal_core::settings::{self, SettingError, Settings};

use crate::held::{Held, HoldError};

/// Reasons for which a setting cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The scheme is unknown.
    #[error("scheme '{0}' is not known to this version of bimetal: use the version that made the volume")]
    Scheme(String),
    /// The parameter or its value is not valid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The scheme cannot use the members any more.
    #[error(transparent)]
    Layout(#[from] SchemeError),
    /// The layout would change.
    #[error("{key}={value} would change where data lies on the drives: make a new volume with `bimetal create`")]
    LiesElsewhere {
        /// Name of the parameter.
        key: String,
        /// Value that was requested.
        value: String,
    },
    /// The setting is possible in simulations only.
    #[error("{key}={value}: only a simulation can follow this setting: {reason}")]
    OnlySimulated {
        /// Name of the parameter.
        key: String,
        /// Value that was requested.
        value: String,
        /// Reason for which no volume can have the setting.
        reason: &'static str,
    },
}

/// Checks a new value of a parameter by the rules for every volume, served or not. Returns true if
/// the value differs from the old value.
///
/// `before` has the settings with the old value, and the number of reasons for which only a
/// simulation follows these settings: 0 for a volume that is served. `after` has the settings with
/// the new value, and the scheme that was made of them.
///
/// A value that only a simulation follows is refused. A volume of an earlier build that has such
/// values may leave them, one after the other.
///
/// # Errors
/// Fails with the setting, the value and the remedy if only a simulation follows the value.
pub fn check_change(
    (key, value): (&str, &str),
    (before, reasons_before): (&Settings, usize),
    (after, made): (&Settings, &(dyn Scheme + 'static)),
) -> Result<bool, SetError> {
    let reasons: Vec<&'static str> = made.reasons_only_simulated().collect();
    if let Some(first) = reasons.first().filter(|_| reasons.len() >= reasons_before) {
        let own = format!("with {key}={value} ");
        let reason = *reasons.iter().find(|reason| reason.starts_with(&own)).unwrap_or(first);
        return Err(SetError::OnlySimulated { key: key.to_owned(), value: value.to_owned(), reason });
    }
    Ok(before.get(key) != after.get(key))
}

/// Checks a setting that a volume with this label is to have from its next start on. Returns true
/// if the volume must be clean for the change: a parameter that may change while the volume is
/// served does not need a clean volume.
///
/// # Errors
/// Fails if the setting is not possible.
pub fn needs_clean(label: &Label, key: &str, value: &str) -> Result<bool, SetError> {
    let scheme = schemes::find(&label.scheme).ok_or_else(|| SetError::Scheme(label.scheme.clone()))?;
    let members = label.member_infos();
    let request = LayoutRequest { block: label.block, members: &members, units: &label.units };
    let before = Settings::new(scheme.name, scheme.parameters, label.scheme_settings())?;
    let others = label.scheme_settings().filter(|(other, _)| *other != key);
    let after = Settings::new(scheme.name, scheme.parameters, others.chain([(key, value)]))?;
    let (lay_out, build) = (scheme.layout, scheme.build);
    let (old, new) = (lay_out(&before, &request)?, lay_out(&after, &request)?);
    let reasons_before = build(&before, &old)?.reasons_only_simulated().count();
    let mut made = build(&after, &new)?;
    let differs = check_change((key, value), (&before, reasons_before), (&after, &*made))?;
    // The use of slots may change while they are empty; their positions may not.
    let mut same_use = new;
    if let (Some(slots), Some(before)) = (&mut same_use.slots, &old.slots) {
        slots.kind = before.kind;
    }
    if same_use != old {
        return Err(SetError::LiesElsewhere { key: key.to_owned(), value: value.to_owned() });
    }
    // No build opens a volume that only a simulation follows, so the volume cannot be drained
    // first.
    if !differs || reasons_before > 0 {
        return Ok(false);
    }
    let of_moves = [settings::MOVE_RATE.name, settings::MOVE_MEMORY.name].contains(&key);
    let live = of_moves || made.set(key, &after)?;
    Ok(!live)
}

/// Writes a setting to all labels.
///
/// # Errors
/// Fails if a label cannot be written; others may have been written.
pub fn keep(held: &mut Held, key: &str, value: &str) -> Result<(), HoldError> {
    held.relabel(|label| {
        label.settings.retain(|(other, _)| other != key);
        label.settings.push((key.to_owned(), value.to_owned()));
    })
}
