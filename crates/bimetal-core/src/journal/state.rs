//! The state of a volume, kept on the members that are home: what must be known when another member is missing. Two pages
//! at the beginning of the tail, written in turn.

use super::page::{self, Page, PageError, put, u64_at};

/// See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Counts states; its lowest bit says in which of the two pages this one lies.
    pub sequence: u64,
    /// Members that were given up, a bit each: what they hold is old.
    pub failed: u64,
    /// Whether the slots may hold content that home does not have: their member must be present.
    pub dirty: bool,
    /// Whether a migration was writing home: without the log, home is between two states.
    pub migrating: bool,
}

const MAGIC: u32 = 0x746d_4942; // "BImt"

impl State {
    /// Which of the two pages it lies in.
    pub fn turn(&self) -> u64 {
        self.sequence & 1
    }

    /// As a page of the volume `volume`.
    pub fn encode(&self, volume: u64) -> Page {
        let mut page = page::begin(MAGIC, volume);
        put(&mut page, 16, self.sequence.to_le_bytes());
        put(&mut page, 32, self.failed.to_le_bytes());
        put(&mut page, 40, [u8::from(self.dirty), u8::from(self.migrating)]);
        page::seal(&mut page);
        page
    }

    /// The volume and its state, from a page.
    ///
    /// # Errors
    /// The page is not a state, is torn, or of a later version.
    pub fn decode(page: &Page) -> Result<(u64, Self), PageError> {
        let volume = page::check(MAGIC, page)?;
        let state = Self {
            sequence: u64_at(page, 16),
            failed: u64_at(page, 32),
            dirty: page[40] != 0,
            migrating: page[41] != 0,
        };
        Ok((volume, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_state_reads_back(volume: u64, sequence: u64, failed: u64, dirty: bool, migrating: bool) {
            let state = State { sequence, failed, dirty, migrating };
            prop_assert_eq!(State::decode(&state.encode(volume)), Ok((volume, state)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), page::PAGE_BYTES)) {
            let _ = State::decode(&page::tests::disguise(MAGIC, &bytes));
        }
    }
}
