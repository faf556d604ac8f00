//! The one message with which a command ends when its input or configuration is wrong.

use std::error::Error as StdError;
use std::fmt;

use bimetal_models::spelling::nearest;

/// Reasons for which a command does not succeed.
#[derive(Debug)]
pub enum Error {
    /// One message for the user: what is wrong, its place, and what was expected.
    Message(String),
    /// The command has printed its answer, and the answer is "no". No message is printed.
    No,
    /// The reader of standard output has closed the output. No message is printed.
    OutputClosed,
}

impl Error {
    /// Returns an error with `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }

    /// Returns the error for a `name` that is not in `known`, with the nearest known name.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(match nearest(name, known.iter().copied()) {
            Some(near) => format!("unknown {what} '{name}': did you mean '{near}'? Known are {}", known.join(" ")),
            None => format!("unknown {what} '{name}': expected one of {}", known.join(" ")),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(message),
            Self::No => f.write_str("the answer is no"),
            Self::OutputClosed => f.write_str("standard output was closed"),
        }
    }
}

/// Every error of the other crates becomes the one message, causes included.
impl<E: StdError> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self::Message(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest_and_nonsense_gets_none() {
        let known = ["msr", "spc", "disksim", "griffin"];
        let message = Error::unknown("scheme", "grifin", known).to_string();
        assert!(message.starts_with("unknown scheme 'grifin': did you mean 'griffin'?"), "{message}");
        let message = Error::unknown("scheme", "zzz", known).to_string();
        assert_eq!(message, "unknown scheme 'zzz': expected one of msr spc disksim griffin");
    }
}
