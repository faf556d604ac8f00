//! Numbers devices that a trace names by a text, in order of first appearance.

use hashbrown::HashMap;

use crate::entry::Bad;

/// Largest number of names in a trace; a trace with more is rejected as garbage.
const NAMES_MAX: usize = 65_536;

/// Names seen so far.
#[derive(Default)]
pub(crate) struct DeviceNames {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32, foldhash::fast::FixedState>,
    /// Number of the last name looked up: most traces stay with one device for a while.
    last: u32,
}

impl DeviceNames {
    /// Returns the number of `name`.
    ///
    /// # Errors
    /// Refuses the 65,537th name.
    #[inline]
    pub(crate) fn number(&mut self, field: &'static str, name: &[u8]) -> Result<u32, Box<Bad>> {
        if self.names.get(self.last as usize).is_some_and(|last| **last == *name) {
            return Ok(self.last);
        }
        self.last = match self.numbers.get(name) {
            Some(&number) => number,
            None if self.names.len() == NAMES_MAX => {
                return Err(Bad::form(field, name, "one of at most 65536 device names"));
            }
            None => {
                let number = self.names.len() as u32;
                self.names.push(name.into());
                self.numbers.insert(name.into(), number);
                number
            }
        };
        Ok(self.last)
    }

    /// Returns the name of device `number`, if the device was seen.
    pub(crate) fn name(&self, number: u32) -> Option<String> {
        self.names.get(number as usize).map(|name| String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_as_they_appear() {
        let mut names = DeviceNames::default();
        let numbers = ["8,0", "8,16", "8,0", "8,16"].map(|name| names.number("device", name.as_bytes()).unwrap());
        assert_eq!(numbers, [0, 1, 0, 1]);
        assert_eq!(names.name(1).as_deref(), Some("8,16"));
        assert_eq!(names.name(2), None);
    }
}
