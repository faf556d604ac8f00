//! Names of drives on the command line: the name of the role for the first drive of a role, with a
//! number from the second drive on (`ssd`, `ssd2`, `ssd3`).

use bimetal_core::layout::{ARRAY_MAX, Role};

use crate::setup::{Choices, SetupError};

const ROLES: [Role; 3] = [Role::Ssd, Role::Hdd, Role::Log];

/// Name of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberName {
    pub(crate) role: Role,
    /// Number of the drive among the drives of its role, from 1.
    pub(crate) number: usize,
}

impl MemberName {
    /// Parses a name; `None` if the text is not a name of a drive.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let role = ROLES.into_iter().find(|role| role.name() == name)?;
        let number = match &text[name.len()..] {
            "" => 1,
            digits if digits.starts_with('0') => return None,
            digits => digits.parse().ok().filter(|number| (2..=ARRAY_MAX).contains(number))?,
        };
        Some(Self { role, number })
    }

    /// Returns the text of the name.
    pub(crate) fn text(self) -> String {
        match self.number {
            1 => self.role.name().to_owned(),
            number => format!("{}{number}", self.role.name()),
        }
    }
}

/// Checks the names of `--member`: each names a drive, and numbers are consecutive.
pub(crate) fn check_names(choices: &Choices) -> Result<(), SetupError> {
    let has = |name: MemberName| choices.members.iter().any(|(id, _)| *id == name.text());
    for (id, _) in &choices.members {
        let Some(name) = MemberName::parse(id) else { return Err(SetupError::UnknownMember(id.clone())) };
        let before = MemberName { number: name.number - 1, ..name };
        // The first SSD and the first HDD exist without being named.
        let is_there = before.number == 0 || (before.number == 1 && name.role != Role::Log);
        if !is_there && !has(before) {
            return Err(SetupError::MemberGap { member: id.clone(), missing: before.text() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_a_role_with_a_number_from_two_on() {
        let name = |role, number| Some(MemberName { role, number });
        let read = ["ssd", "hdd", "log", "ssd2", "hdd64"].map(MemberName::parse);
        let expected = [(Role::Ssd, 1), (Role::Hdd, 1), (Role::Log, 1), (Role::Ssd, 2), (Role::Hdd, 64)];
        assert_eq!(read, expected.map(|(role, number)| name(role, number)));
        for text in ["", "2", "ssd0", "ssd1", "ssd02", "ssd65", "ssd-2", "disk2", "raid1", "ssd99999999999999999999"] {
            assert_eq!(MemberName::parse(text), None, "{text}");
        }
        for text in ["ssd", "ssd2", "log"] {
            assert_eq!(MemberName::parse(text).map(MemberName::text).as_deref(), Some(text));
        }
    }
}
