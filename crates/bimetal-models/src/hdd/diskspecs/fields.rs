//! Looks up figures in a block of a parameter file, by the names that DiskSim uses.

use super::DiskspecsError;
use super::parser::{self, Block, Item, Value};

/// Returns the block of kind `kind` in a file.
///
/// # Errors
/// Refuses a file that does not have the form of a parameter file, or has no block of this kind.
pub(super) fn one_block(text: &str, file: &str, kind: &str) -> Result<Block, DiskspecsError> {
    let blocks = parser::parse(text, file)?;
    blocks.into_iter().find(|block| block.kind == kind).ok_or_else(|| DiskspecsError::Missing {
        file: file.to_owned(),
        line: 1,
        key: kind.to_owned(),
        expected: format!("a block '{kind} NAME {{ … }}'"),
    })
}

/// Figures of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) block: &'a Block,
    pub(super) file: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(block: &'a Block, file: &'a str) -> Self {
        Self { block, file }
    }

    fn find(&self, key: &str) -> Option<&'a Item> {
        let item = self.block.items.iter().find(|item| item.key.eq_ignore_ascii_case(key))?;
        item.used.set(true);
        Some(item)
    }

    fn missing(&self, key: &str, expected: &str) -> DiskspecsError {
        DiskspecsError::Missing {
            file: self.file.to_owned(),
            line: self.block.line,
            key: key.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Returns an error: the value of `key` is not the `expected` value.
    pub(super) fn bad(&self, key: &str, expected: &str) -> DiskspecsError {
        let item = self.find(key);
        DiskspecsError::Figure {
            file: self.file.to_owned(),
            line: item.map_or(self.block.line, |item| item.line),
            key: key.to_owned(),
            value: item.map_or_else(|| "nothing".to_owned(), |item| item.value.to_string()),
            expected: expected.to_owned(),
        }
    }

    /// Returns a number from `low` to `high`, or `None` if the key is missing.
    pub(super) fn optional(&self, key: &str, low: f64, high: f64) -> Result<Option<f64>, DiskspecsError> {
        match self.find(key).map(|item| &item.value) {
            None => Ok(None),
            Some(Value::Number(number)) if (low..=high).contains(number) => Ok(Some(*number)),
            Some(_) => Err(self.bad(key, &format!("a number from {low} to {high}"))),
        }
    }

    pub(super) fn number(&self, key: &str, low: f64, high: f64) -> Result<f64, DiskspecsError> {
        self.optional(key, low, high)?.ok_or_else(|| self.missing(key, &format!("a number from {low} to {high}")))
    }

    /// Returns a time in milliseconds; 0 if the key is missing.
    pub(super) fn milliseconds(&self, key: &str) -> Result<f64, DiskspecsError> {
        Ok(self.optional(key, 0.0, 1000.0)?.unwrap_or(0.0))
    }

    pub(super) fn whole(&self, key: &str, low: u64, high: u64) -> Result<u64, DiskspecsError> {
        let number = self.number(key, low as f64, high as f64)?;
        if number.fract() == 0.0 { Ok(number as u64) } else { Err(self.bad(key, "a whole number")) }
    }

    /// Returns false for 0 or if the key is missing, and true for other numbers up to 2.
    pub(super) fn flag(&self, key: &str) -> Result<bool, DiskspecsError> {
        Ok(self.optional(key, 0.0, 2.0)?.is_some_and(|value| value != 0.0))
    }

    pub(super) fn word(&self, key: &str) -> Option<&'a str> {
        match self.find(key).map(|item| &item.value) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns the file that `key = source FILE` names.
    pub(super) fn source(&self, key: &str) -> Result<&'a str, DiskspecsError> {
        match self.find(key).map(|item| &item.value) {
            Some(Value::Source(file)) => Ok(file),
            Some(Value::Word(file)) => Ok(file),
            Some(_) => Err(self.bad(key, "a file, as 'source FILE'")),
            None => Err(self.missing(key, "a file, as 'source FILE'")),
        }
    }

    pub(super) fn block(&self, key: &str, kind: &str) -> Result<Fields<'a>, DiskspecsError> {
        match self.find(key).map(|item| &item.value) {
            Some(Value::Block(block)) if block.kind == kind => Ok(Fields { block, file: self.file }),
            Some(_) => Err(self.bad(key, &format!("'{kind} {{ … }}': this model knows no other"))),
            None => Err(self.missing(key, &format!("'{kind} {{ … }}'"))),
        }
    }

    /// Returns the elements of a list; no elements if the key is missing.
    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], DiskspecsError> {
        match self.find(key).map(|item| &item.value) {
            None => Ok(&[]),
            Some(Value::List(values)) => Ok(values),
            Some(_) => Err(self.bad(key, "a list in brackets")),
        }
    }

    /// Returns the elements of a list of numbers of at least 0.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, DiskspecsError> {
        let number = |value: &Value| match value {
            Value::Number(number) if *number >= 0.0 => Ok(*number),
            _ => Err(self.bad(key, "numbers of at least 0")),
        };
        self.list(key)?.iter().map(number).collect()
    }

    /// Returns the elements of a list of numbers.
    pub(super) fn numbers_with_sign(&self, key: &str) -> Result<Vec<f64>, DiskspecsError> {
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            _ => Err(self.bad(key, "numbers")),
        };
        self.list(key)?.iter().map(number).collect()
    }

    /// Returns the elements of a list of whole numbers of at least 0.
    pub(super) fn whole_numbers(&self, key: &str) -> Result<Vec<u64>, DiskspecsError> {
        let numbers = self.numbers(key)?;
        if numbers.iter().any(|number| number.fract() != 0.0) {
            return Err(self.bad(key, "whole numbers"));
        }
        Ok(numbers.into_iter().map(|number| number as u64).collect())
    }
}
