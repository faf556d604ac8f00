//! One walk over the tables of a drive that either writes them or fills them in, so that saved and
//! restored tables cannot differ.
//!
//! Numbers are little-endian groups of seven bits, the lowest first. Arrays are runs of values that
//! are equal or consecutive: untouched stretches of any size take a few bytes.

use std::collections::VecDeque;

use crate::flash::mapping::NONE;

/// Error of content that cannot be the state of a drive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Inconsistent(pub(crate) String);

/// Largest number of erases of a block.
pub(crate) const ERASES_MAX: u64 = u32::MAX as u64 >> 1;

/// Result of a check that tables agree with each other.
pub(crate) type Checked = Result<(), Inconsistent>;

/// Fails with `what` if `holds` is false.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Inconsistent(what())) }
}

/// State that is being written or read.
pub(crate) enum Archive<'a> {
    /// Archive being written: the walk's values are appended.
    Writing(Vec<u8>),
    /// Archive being read: the walk's values are replaced by the values that are read next.
    Reading(&'a [u8]),
}

impl Archive<'_> {
    /// Returns true if tables are being filled in.
    pub(crate) fn is_reading(&self) -> bool {
        matches!(self, Self::Reading(_))
    }

    /// Saves or restores a number of at most `most`.
    pub(crate) fn number<T: Copy + Into<u64> + TryFrom<u64>>(&mut self, value: &mut T, most: u64) -> Checked {
        match self {
            Self::Writing(bytes) => append(bytes, (*value).into()),
            Self::Reading(bytes) => {
                let read = take(bytes)?;
                let fits = T::try_from(read).ok().filter(|_| read <= most);
                *value = fits.ok_or_else(|| Inconsistent(format!("a number is {read}: expected at most {most}")))?;
            }
        }
        Ok(())
    }

    /// Saves or restores a number below `below`, or [`NONE`].
    pub(crate) fn place(&mut self, value: &mut u32, below: u32) -> Checked {
        let mut shifted = u64::from(value.wrapping_add(1));
        self.number(&mut shifted, below.into())?;
        *value = (shifted as u32).wrapping_sub(1);
        Ok(())
    }

    /// Transfers a boolean.
    pub(crate) fn flag(&mut self, value: &mut bool) -> Checked {
        let mut number = u8::from(*value);
        self.number(&mut number, 1)?;
        *value = number == 1;
        Ok(())
    }

    /// Saves or restores whether `value` is present. On reading, a present value becomes
    /// `absent()`.
    pub(crate) fn option<T>(&mut self, value: &mut Option<T>, absent: impl FnOnce() -> T) -> Checked {
        let mut is_there = value.is_some();
        self.flag(&mut is_there)?;
        if self.is_reading() {
            *value = is_there.then(absent);
        }
        Ok(())
    }

    /// Saves or restores values of at most `most` each; their number is known.
    pub(crate) fn table<T: Copy + Into<u64> + TryFrom<u64>>(&mut self, values: &mut [T], most: u64) -> Checked {
        match self {
            Self::Writing(bytes) => append_runs(bytes, values.iter().map(|value| (*value).into())),
            Self::Reading(bytes) => {
                let (mut values, mut last) = (values.iter_mut(), 0u64);
                while values.len() > 0 {
                    let (len, first, step) = take_run(bytes, last)?;
                    ensure(len >= 1 && len <= values.len() as u64, || format!("a run of {len} values"))?;
                    last = first.wrapping_add(step * (len - 1));
                    ensure(first <= most && last <= most && first <= last, || {
                        format!("values from {first} to {last}: expected at most {most}")
                    })?;
                    for (value, read) in values.by_ref().take(len as usize).zip(0..) {
                        let read = first + step * read;
                        *value = T::try_from(read).map_err(|_| Inconsistent(format!("the value {read}")))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Saves or restores values below `below`, or [`NONE`]; their number is known.
    pub(crate) fn places(&mut self, values: &mut [u32], below: u32) -> Checked {
        self.table(values, NONE.into())?;
        let wrong = values.iter().find(|value| **value >= below && **value != NONE);
        wrong.map_or(Ok(()), |value| Err(Inconsistent(format!("the index {value}: expected less than {below}"))))
    }

    /// Saves or restores up to `most` values below `below`.
    pub(crate) fn list(&mut self, values: &mut Vec<u32>, most: u64, below: u32) -> Checked {
        let mut len = values.len() as u64;
        self.number(&mut len, most)?;
        if self.is_reading() {
            *values = vec![0; len as usize];
        }
        ensure(len == 0 || below > 0, || "values in a list that must be empty".to_owned())?;
        self.table(values, u64::from(below).saturating_sub(1))
    }

    /// Saves or restores a queue as [`list`](Self::list) does.
    pub(crate) fn queue(&mut self, values: &mut VecDeque<u32>, most: u64, below: u32) -> Checked {
        let mut list = std::mem::take(values).into();
        let read = self.list(&mut list, most, below);
        *values = list.into();
        read
    }

    /// Saves or restores the first `len` bits of `words`, as lengths of runs that begin with a run
    /// of zeroes.
    pub(crate) fn bits(&mut self, words: &mut [u64], len: u32) -> Checked {
        let bit = |words: &[u64], at: u32| words[at as usize / 64] >> (at % 64) & 1 == 1;
        let (mut at, mut set) = (0, false);
        if self.is_reading() {
            words.fill(0);
        }
        while at < len {
            let left = len - at;
            let mut run = match self {
                // Whole words of equal bits are skipped at once.
                Self::Writing(_) => run_of_bits(words, at, len, set),
                Self::Reading(_) => 0,
            };
            self.number(&mut run, left.into())?;
            ensure(run > 0 || at == 0, || "an empty run of bits".to_owned())?;
            if set && self.is_reading() {
                set_bits(words, at, at + run);
            }
            debug_assert!(run == 0 || bit(words, at) == set);
            (at, set) = (at + run, !set);
        }
        Ok(())
    }
}

/// Returns the number of consecutive bits from `at` on, before `len`, that are equal to `set`.
fn run_of_bits(words: &[u64], at: u32, len: u32, set: bool) -> u32 {
    let mut end = at;
    while end < len {
        let word = if set { !words[end as usize / 64] } else { words[end as usize / 64] };
        let same = (word >> (end % 64)).trailing_zeros().min(64 - end % 64);
        end += same;
        if same == 0 || !end.is_multiple_of(64) {
            break;
        }
    }
    end.min(len) - at
}

fn set_bits(words: &mut [u64], start: u32, end: u32) {
    let mut at = start;
    while at < end {
        let stop = end.min((at / 64 + 1) * 64);
        words[at as usize / 64] |= (u64::MAX >> (64 - (stop - at))) << (at % 64);
        at = stop;
    }
}

/// Appends a number.
pub(crate) fn append(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number from the front.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<u64, Inconsistent> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(|| Inconsistent("the file ends too soon".to_owned()))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Inconsistent("a number of more than 64 bits".to_owned()))
}

/// Appends a run of `len` values: the first is given by its distance from `last`, and each further
/// value is `step` more.
pub(crate) fn append_run(bytes: &mut Vec<u8>, (len, first, step): (u64, u64, u64), last: u64) {
    let distance = first.wrapping_sub(last) as i64;
    append(bytes, len << 1 | step);
    append(bytes, (distance << 1 ^ distance >> 63) as u64);
}

/// Takes a run from the front: number of values, first value, and step.
pub(crate) fn take_run(bytes: &mut &[u8], last: u64) -> Result<(u64, u64, u64), Inconsistent> {
    let (head, distance) = (take(bytes)?, take(bytes)?);
    let distance = (distance >> 1) as i64 ^ -((distance & 1) as i64);
    Ok((head >> 1, last.wrapping_add(distance as u64), head & 1))
}

fn append_runs(bytes: &mut Vec<u8>, mut values: impl Iterator<Item = u64>) {
    let Some(first) = values.next() else { return };
    let (mut run, mut last, mut before) = ((1, first, 0), first, 0);
    for value in values {
        match value.checked_sub(last) {
            Some(step) if step <= 1 && (run.0 == 1 || step == run.2) => run = (run.0 + 1, run.1, step),
            _ => {
                append_run(bytes, run, before);
                (before, run) = (last, (1, value, 0));
            }
        }
        last = value;
    }
    append_run(bytes, run, before);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads into `empty` the values that `transfer` writes for `value`.
    fn there_and_back<T>(value: &mut T, empty: &mut T, transfer: impl Fn(&mut Archive, &mut T) -> Checked) -> usize {
        let mut archive = Archive::Writing(Vec::new());
        transfer(&mut archive, value).unwrap();
        let Archive::Writing(bytes) = archive else { unreachable!() };
        let mut archive = Archive::Reading(&bytes);
        transfer(&mut archive, empty).unwrap();
        assert!(matches!(archive, Archive::Reading([])), "bytes are left");
        bytes.len()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            values in prop::collection::vec(prop_oneof![0..4u64, any::<u64>(), (u64::MAX - 2)..=u64::MAX], 0..60),
            steps in prop::collection::vec((any::<u32>(), 0..2u32, 1..50u32), 0..5),
            words in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 1..6),
            short in 0..64u32,
        ) {
            let mut empty = vec![0; values.len()];
            there_and_back(&mut values.clone(), &mut empty, |archive, values| archive.table(values, u64::MAX));
            prop_assert_eq!(&empty, &values);
            let runs = steps.iter().flat_map(|(first, step, len)| (0..*len).map(move |n| (first / 2) + n * step));
            let runs: Vec<u32> = runs.collect();
            let mut read = Vec::new();
            there_and_back(&mut runs.clone(), &mut read, |archive, list| archive.list(list, 1000, u32::MAX));
            prop_assert_eq!(read, runs);
            let len = words.len() as u32 * 64 - short;
            let mut written = words.clone();
            if let Some(last) = written.last_mut() {
                *last &= u64::MAX >> short;
            }
            let mut read = vec![7; words.len()];
            there_and_back(&mut written.clone(), &mut read, |archive, words| archive.bits(words, len));
            prop_assert_eq!(read, written);
        }

        #[test]
        fn whatever_is_read_gives_values_within_bounds_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut archive = Archive::Reading(&bytes);
            let (mut table, mut places, mut list, mut words) = ([0u32; 40], [0u32; 9], Vec::new(), [0u64; 2]);
            if archive.table(&mut table, 50).is_ok() {
                prop_assert!(table.iter().all(|value| *value <= 50));
            }
            if archive.places(&mut places, 9).is_ok() {
                prop_assert!(places.iter().all(|value| *value < 9 || *value == NONE));
            }
            if archive.list(&mut list, 6, 5).is_ok() {
                prop_assert!(list.len() <= 6 && list.iter().all(|value| *value < 5));
            }
            if archive.bits(&mut words, 100).is_ok() {
                prop_assert_eq!(words[1] >> 36, 0);
            }
        }
    }

    #[test]
    fn what_nothing_has_touched_takes_a_few_bytes() {
        let mut values: Vec<u32> = (0..1 << 20).collect();
        let bytes =
            there_and_back(&mut values, &mut vec![0; 1 << 20], |archive, values| archive.table(values, 1 << 20));
        assert!(bytes < 8, "{bytes}");
        let mut words = vec![u64::MAX; 1 << 14];
        let bytes = there_and_back(&mut words, &mut vec![0; 1 << 14], |archive, words| archive.bits(words, 1 << 20));
        assert!(bytes < 8, "{bytes}");
    }
}
