//! Checks of a question before anything is read: budgets do not contradict each other, and
//! parameters exist and have valid values.

use bimetal_core::scheme::SchemeInfo;
use bimetal_core::settings::{SettingError, Settings};
use bimetal_models::spelling::nearest;
use bimetal_sim::simulator::Replay;

use crate::grid::names;
use crate::{PlanError, Question, budget};

/// Reasons for which a parameter cannot be varied, or set for all options.
#[derive(Debug, thiserror::Error)]
pub enum ParameterError {
    /// No scheme of the plan has the parameter.
    #[error("--vary {key}: no scheme of this plan has that parameter{hint}; `bimetal schemes` lists the schemes")]
    Unknown {
        /// Key of the parameter.
        key: String,
        /// Most similar parameter.
        hint: String,
    },
    /// The parameter is both fixed and varied.
    #[error("--vary {vary}: --set {set} fixes that parameter: leave one of the two out")]
    Fixed {
        /// Key that is varied.
        vary: String,
        /// Key that is set.
        set: String,
    },
    /// The parameter is varied twice.
    #[error("--vary {0} and --vary {1} name the same parameter: list all its values in one of them")]
    Twice(String, String),
    /// No scheme of the plan accepts the value.
    #[error("{flag}: {error}")]
    Value {
        /// Flag and key.
        flag: String,
        /// Error of the scheme.
        error: SettingError,
    },
}

/// Refuses an invalid question.
///
/// # Errors
/// Returns an error that names the invalid flag.
pub(crate) fn check(question: &Question<'_>) -> Result<(), PlanError> {
    budget::check(&question.budgets)?;
    let life = question.budgets.iter().find(|budget| budget.needs_lives());
    if let (Some(life), Replay::Closed { .. }) = (life, question.replay) {
        return Err(PlanError::NeedsTimes { budget: life.to_string() });
    }
    if let (Some(budget), Replay::Timed { .. } | Replay::Think { .. }) =
        (question.budgets.iter().find(|budget| budget.needs_closed_replay()), question.replay)
    {
        return Err(PlanError::NeedsClosedReplay { budget: budget.to_string() });
    }
    bimetal_sim::setup::check_keys(&question.schemes, &question.common)?;
    for (key, value) in &question.common.settings {
        check_value(&question.schemes, "--set", key, value)?;
    }
    for (at, (key, values)) in question.vary.iter().enumerate() {
        let known = |info: &&&SchemeInfo| info.parameters.iter().any(|parameter| names(key, info, parameter));
        if !question.schemes.iter().any(|info| known(&info)) {
            return Err(unknown(&question.schemes, key).into());
        }
        let before = question.vary[..at].iter().map(|(key, _)| key.as_str());
        if let Some(before) = same_parameter(&question.schemes, key, before) {
            return Err(ParameterError::Twice(before.to_owned(), key.clone()).into());
        }
        let set = question.common.settings.iter().map(|(key, _)| key.as_str());
        if let Some(set) = same_parameter(&question.schemes, key, set) {
            return Err(ParameterError::Fixed { vary: key.clone(), set: set.to_owned() }.into());
        }
        values.iter().try_for_each(|value| check_value(&question.schemes, "--vary", key, value))?;
    }
    Ok(())
}

/// Returns the first of `others` that names the same parameter as `key`.
fn same_parameter<'q>(
    schemes: &[&'static SchemeInfo],
    key: &str,
    mut others: impl Iterator<Item = &'q str>,
) -> Option<&'q str> {
    let parameters = schemes.iter().flat_map(|&info| info.parameters.iter().map(move |known| (info, known)));
    let varied: Vec<_> = parameters.filter(|(info, known)| names(key, info, known)).collect();
    others.find(|other| varied.iter().any(|(info, known)| names(other, info, known)))
}

/// Refuses a value that none of the schemes with this parameter accepts.
fn check_value(schemes: &[&'static SchemeInfo], flag: &str, key: &str, value: &str) -> Result<(), ParameterError> {
    let mut refused = None;
    for info in schemes {
        let Some(parameter) = info.parameters.iter().find(|parameter| names(key, info, parameter)) else { continue };
        match Settings::new(info.name, info.parameters, [(parameter.name, value)]) {
            Ok(_) => return Ok(()),
            Err(error) => refused = Some(error),
        }
    }
    refused.map_or(Ok(()), |error| Err(ParameterError::Value { flag: format!("{flag} {key}={value}"), error }))
}

fn unknown(schemes: &[&'static SchemeInfo], key: &str) -> ParameterError {
    let full = |info: &&'static SchemeInfo| {
        let scheme = info.name;
        info.parameters.iter().map(move |parameter| format!("{scheme}.{}", parameter.name))
    };
    let full: Vec<String> = schemes.iter().flat_map(full).collect();
    let bare = schemes.iter().flat_map(|info| info.parameters).map(|parameter| parameter.name);
    let near = match key.contains('.') {
        true => nearest(key, full.iter().map(String::as_str)),
        false => nearest(key, bare),
    };
    let hint = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    ParameterError::Unknown { key: key.to_owned(), hint }
}
