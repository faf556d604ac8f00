//! Settings on the labels of a volume that a process holds.

use bimetal_core::label::Label;
use bimetal_core::layout::LayoutRequest;
use bimetal_core::scheme::SchemeError;
use bimetal_core::schemes;
use bimetal_core::settings::{self, SettingError, Settings};

use crate::held::{Held, HoldError};

/// Reasons for which a setting cannot be changed on a volume that is not served.
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
    #[error("{key}={value}: only a simulation can do that: {reason}")]
    OnlySimulated {
        /// Name of the parameter.
        key: String,
        /// Value that was requested.
        value: String,
        /// Reason for which no volume can have the setting.
        reason: &'static str,
    },
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
    let parameter = scheme.parameters.iter().find(|parameter| parameter.name == key);
    let (lay_out, build) = (scheme.layout, scheme.build);
    if let Some(reason) = parameter.and_then(|it| it.simulated) {
        // A volume may leave a value that only a simulation follows, and may not take one. A build
        // that refuses such a value opens no volume with it, so the volume cannot be drained first.
        let leaves = build(&after, &lay_out(&after, &request)?)?.why_only_simulated().is_none();
        let only_simulated = || SetError::OnlySimulated { key: key.to_owned(), value: value.to_owned(), reason };
        return if leaves { Ok(false) } else { Err(only_simulated()) };
    }
    let (old, new) = (lay_out(&before, &request)?, lay_out(&after, &request)?);
    let is_simulated = build(&before, &old)?.why_only_simulated().is_some();
    let (key, value) = (key.to_owned(), value.to_owned());
    // The use of slots may change while they are empty; their positions may not.
    let mut same_use = new.clone();
    if let (Some(slots), Some(before)) = (&mut same_use.slots, &old.slots) {
        slots.kind = before.kind;
    }
    if same_use != old {
        return Err(SetError::LiesElsewhere { key, value });
    }
    let mut built = build(&after, &new)?;
    if let Some(reason) = built.why_only_simulated() {
        return Err(SetError::OnlySimulated { key, value, reason });
    }
    if is_simulated {
        // No build opens the volume, so the volume cannot be drained first.
        return Ok(false);
    }
    let of_moves = [settings::MOVE_RATE.name, settings::MOVE_MEMORY.name].contains(&key.as_str());
    let live = of_moves || built.set(&key, &after)?;
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
