//! Checks the names in `--set`, `--member` and `--restore-state` before any simulation.

use bimetal_core::layout::Role;
use bimetal_core::scheme::{Holds, SchemeInfo};
use bimetal_core::units::Sectors;
use bimetal_models::flash::state::DriveState;
use bimetal_models::profile::Profile;
use bimetal_models::spelling::nearest;

use crate::block_layer;
use crate::member_name::{MemberName, check_names};
use crate::setup::{CONTROLLER_USD, Choices, SetupError};

/// Checks the settings for a list of schemes. Every key must belong to at least one scheme, or to a
/// drive that a scheme uses, and every named drive must exist.
///
/// # Errors
/// Refuses a key that no scheme or drive has, and a drive that no scheme uses.
pub fn check_keys(schemes: &[&'static SchemeInfo], choices: &Choices) -> Result<(), SetupError> {
    check_keys_with(schemes, choices, &[])
}

/// Checks the settings like [`check_keys`], but accepts keys of `named` volumes and drives, which
/// check their own settings.
pub(crate) fn check_keys_with(
    schemes: &[&'static SchemeInfo],
    choices: &Choices,
    named: &[&str],
) -> Result<(), SetupError> {
    for (key, value) in &choices.settings {
        check_key(schemes, choices, named, key).map_err(|error| with_value(error, value))?;
    }
    check_names(choices)?;
    for (id, _) in &choices.members {
        // Drives of the roles SSD and HDD may be given to schemes that do not use them.
        let special = MemberName::parse(id).filter(|name| name.number > 1 || name.role == Role::Log);
        if special.is_some_and(|name| !schemes.iter().any(|info| uses_role(info, name.role))) {
            return Err(SetupError::UnknownMember(id.clone()));
        }
    }
    for DriveState { drive, .. } in choices.restored.iter() {
        // Second and further drives of a role have a number.
        let role = drive.trim_end_matches(|c: char| c.is_ascii_digit());
        let of_schemes = schemes.iter().flat_map(|info| info.members).any(|(needed, _)| needed.name() == role);
        let of_flags = choices.members.iter().any(|(id, _)| id == drive);
        if !of_schemes && !of_flags && !named.contains(&drive.as_str()) {
            return Err(SetupError::UnusedState(drive.clone()));
        }
    }
    for choice in [&choices.ssd, &choices.hdd].into_iter().chain(choices.members.iter().map(|(_, choice)| choice)) {
        choice.profile.as_deref().map(Profile::load).transpose()?;
    }
    Ok(())
}

/// Checks the key of a setting.
fn check_key(schemes: &[&'static SchemeInfo], choices: &Choices, named: &[&str], key: &str) -> Result<(), SetupError> {
    match key.split_once('.') {
        Some((name, _)) if named.contains(&name) => Ok(()),
        Some(("block", figure)) if block_layer::KEYS.contains(&figure) => Ok(()),
        Some(("block", figure)) => Err(unknown_key(key, nearest(figure, block_layer::KEYS))),
        Some((name, figure)) => match MemberName::parse(name) {
            Some(drive) => check_figure(schemes, choices, drive, key, figure),
            None => check_parameter(schemes, key, name, figure),
        },
        None if key == CONTROLLER_USD => Ok(()),
        None => {
            let known = schemes.iter().flat_map(|info| info.parameters).map(|parameter| parameter.name);
            let is_known = known.clone().any(|name| name == key);
            if is_known { Ok(()) } else { Err(unknown_key(key, nearest(key, known))) }
        }
    }
}

/// Adds the value of the setting to the error about its key.
fn with_value(error: SetupError, setting: &str) -> SetupError {
    match error {
        SetupError::UnknownKey { key, hint, .. } => SetupError::UnknownKey { key, value: setting.to_owned(), hint },
        error => error,
    }
}

/// Returns true if the scheme uses a drive of this role.
pub(crate) fn uses_role(scheme: &SchemeInfo, role: Role) -> bool {
    scheme.members.iter().any(|&(used, holds)| used == role || (role == Role::Log && holds == Holds::Log))
}

/// Checks `--set ssd.FIGURE`: a scheme uses such a drive, and the drive has the figure.
fn check_figure(
    schemes: &[&'static SchemeInfo],
    choices: &Choices,
    drive: MemberName,
    key: &str,
    figure: &str,
) -> Result<(), SetupError> {
    let (role, name) = (drive.role, drive.text());
    let own = choices.members.iter().rfind(|(id, _)| *id == name).map(|(_, choice)| choice);
    let common = if role == Role::Ssd { &choices.ssd } else { &choices.hdd };
    let places = |info: &&SchemeInfo| info.members.iter().filter(|(needed, _)| *needed == role).count();
    let used = schemes.iter().map(places).any(|places| places >= drive.number) || own.is_some();
    if !used {
        return Err(unknown_key(key, None));
    }
    let choice = own.unwrap_or(common);
    let profile = Profile::load(choice.profile.as_deref().unwrap_or(choices.market.default_model(role, Sectors(0))))?;
    if profile.keys().any(|known| known == figure) {
        return Ok(());
    }
    Err(unknown_key(key, nearest(figure, profile.keys())))
}

/// Checks `--set SCHEME.PARAMETER`: the scheme runs, and has the parameter.
fn check_parameter(
    schemes: &[&'static SchemeInfo],
    key: &str,
    scheme: &str,
    parameter: &str,
) -> Result<(), SetupError> {
    let Some(info) = bimetal_core::schemes::find(scheme) else {
        let names = bimetal_core::schemes::every().map(|info| info.name);
        return Err(unknown_key(key, nearest(scheme, names.chain(["ssd", "hdd", "log"]))));
    };
    if !schemes.iter().any(|running| running.name == info.name) {
        let (key, value, hint) = (key.to_owned(), String::new(), format!(", because {scheme} does not run"));
        return Err(SetupError::UnknownKey { key, value, hint });
    }
    let known = info.parameters.iter().map(|parameter| parameter.name).chain([CONTROLLER_USD]);
    if known.clone().any(|name| name == parameter) {
        return Ok(());
    }
    Err(unknown_key(key, nearest(parameter, known)))
}

fn unknown_key(key: &str, nearest: Option<&str>) -> SetupError {
    let hint = nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
    SetupError::UnknownKey { key: key.to_owned(), value: String::new(), hint }
}
