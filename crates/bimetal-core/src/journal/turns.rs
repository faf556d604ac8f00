//! Pages that are written in turn, each turn twice: superblocks and states.
//!
//! Number n lies in turn n mod 2, in two copies. Numbers 0 and 1 are written when the volume is
//! made. The first copy is stable before the second is written, so a power cut tears at most one
//! copy of one turn. So if a turn has no undamaged copy, the turn is damaged. The content of the
//! damaged turn may have been newer than the other turn, so older content is not used in its place.
//! Superblocks are the exception: both turns of a [pair](super::superblock) have the same content.
//!
//! Version 1 of the format wrote each turn once, and number 0 alone when the volume was made
//! ([`Turns::newest_of_version_1`]).

use super::page::{self, Page};

/// Number of turns.
pub const TURNS: usize = 2;
/// Copies of each turn.
pub const COPIES: usize = 2;

/// A copy of a page, as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found<T> {
    /// The copy was never written, or was erased.
    Blank,
    /// The copy is torn, damaged or unreadable.
    Bad,
    /// Number and content of an undamaged copy.
    Sound(u64, T),
}

impl<T> Found<T> {
    /// Returns the state of a copy: `page` was read at the place of `turn`, and `decode` returns
    /// its number and content.
    pub fn of(turn: usize, page: Option<&Page>, decode: impl FnOnce(&Page) -> Option<(u64, T)>) -> Self {
        let Some(page) = page else { return Self::Bad };
        if page::is_blank(page) {
            return Self::Blank;
        }
        match decode(page) {
            Some((number, content)) if (number as usize) % TURNS == turn => Self::Sound(number, content),
            _ => Self::Bad,
        }
    }

    fn number(&self) -> Option<u64> {
        if let Self::Sound(number, _) = self { Some(*number) } else { None }
    }
}

/// All copies of a page as they were read, by turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turns<T>([[Found<T>; COPIES]; TURNS]);

/// Reasons for which no copy counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoneHolds {
    /// No copy was ever written.
    Blank,
    /// Both copies of a turn are damaged, and the damaged turn may have had the newest number.
    Damaged {
        /// The turn.
        turn: usize,
        /// The largest number that the lost content may have had; `None` if the number is unknown.
        at_most: Option<u64>,
    },
}

/// A copy to write again, from the other copy of its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repair {
    /// The turn.
    pub turn: usize,
    /// The copy that is torn, damaged or older.
    pub copy: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self([[Found::Bad, Found::Bad], [Found::Bad, Found::Bad]])
    }
}

impl<T> Turns<T> {
    /// Records a copy that was found.
    pub fn note(&mut self, turn: usize, copy: usize, found: Found<T>) {
        self.0[turn][copy] = found;
    }

    /// Returns the newest number of a turn.
    fn number(&self, turn: usize) -> Option<u64> {
        self.0[turn].iter().filter_map(Found::number).max()
    }

    /// Returns the number and content of the newest copy of a turn.
    fn newest_of(&self, turn: usize) -> Option<(u64, &T)> {
        let sound = self.0[turn].iter().filter_map(|copy| match copy {
            Found::Sound(number, content) => Some((*number, content)),
            _ => None,
        });
        sound.max_by_key(|(number, _)| *number)
    }

    /// Returns the newest of all copies, with its number.
    ///
    /// # Errors
    /// No copy is sound, or a turn is damaged that may have held a newer copy.
    pub fn newest(&self) -> Result<(u64, &T), NoneHolds> {
        let damaged = |turn, number| Err(NoneHolds::Damaged { turn, at_most: Some(number + 1) });
        match (self.newest_of(0), self.newest_of(1)) {
            (Some(first), Some(second)) => Ok(if second.0 > first.0 { second } else { first }),
            (Some((number, _)), None) => damaged(1, number),
            (None, Some((number, _))) => damaged(0, number),
            (None, None) if self.0.iter().flatten().all(|copy| matches!(copy, Found::Blank)) => Err(NoneHolds::Blank),
            (None, None) => Err(NoneHolds::Damaged { turn: 0, at_most: None }),
        }
    }

    /// Returns the newest copy, of pages that version 1 of the format wrote. If one turn is torn or
    /// was never written, the other turn counts.
    pub fn newest_of_version_1(&self) -> Option<(u64, &T)> {
        let turns = (0..TURNS).filter_map(|turn| self.newest_of(turn));
        turns.max_by_key(|(number, _)| *number)
    }

    /// Returns the copies that differ from the other copy of their turn.
    pub fn repairs(&self) -> Vec<Repair> {
        let wrong = |turn: usize, copy: usize| {
            let number = self.number(turn);
            number.is_some() && self.0[turn][copy].number() != number
        };
        let all = (0..TURNS).flat_map(|turn| (0..COPIES).map(move |copy| (turn, copy)));
        all.filter(|&(turn, copy)| wrong(turn, copy)).map(|(turn, copy)| Repair { turn, copy }).collect()
    }

    /// Returns the copies that are not sound.
    pub fn unsound(&self) -> impl Iterator<Item = Repair> {
        let all = (0..TURNS).flat_map(|turn| (0..COPIES).map(move |copy| Repair { turn, copy }));
        all.filter(|at| self.0[at.turn][at.copy].number().is_none())
    }

    /// Returns true if the content of copy `copy` of turn `turn` equals `content`.
    pub fn has(&self, turn: usize, copy: usize, content: &T) -> bool
    where
        T: PartialEq,
    {
        matches!(&self.0[turn][copy], Found::Sound(_, found) if found == content)
    }

    /// Returns the newest content of a turn.
    pub fn content(&self, turn: usize) -> Option<&T> {
        self.newest_of(turn).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use super::Found::{Bad, Blank, Sound};
    use super::*;

    fn turns(copies: [Found<()>; 4]) -> Turns<()> {
        let [a, b, c, d] = copies;
        Turns([[a, b], [c, d]])
    }

    fn newest(copies: [Found<()>; 4]) -> Result<u64, NoneHolds> {
        turns(copies).newest().map(|(number, ())| number)
    }

    /// Returns the copies of a sound volume whose newest number is `number`, at least 1.
    fn sound(number: u64) -> [Found<()>; 4] {
        let of = |turn: u64| if number % 2 == turn { number } else { number - 1 };
        [of(0), of(0), of(1), of(1)].map(|number| Sound(number, ()))
    }

    #[test]
    fn newest_survives_any_one_damaged_copy() {
        for number in [1, 2, 7, 8] {
            for at in 0..4 {
                for damaged in [Bad, Blank] {
                    let mut copies = sound(number);
                    copies[at] = damaged;
                    assert_eq!(newest(copies), Ok(number), "copy {at}");
                }
                let mut copies = sound(number);
                if let Sound(number, ()) = &mut copies[at] {
                    *number = number.saturating_sub(2);
                }
                assert_eq!(newest(copies), Ok(number), "copy {at} is an older one");
            }
        }
    }

    #[test]
    fn older_turn_never_stands_in_for_damaged_newer_one() {
        for [first, second] in [[Bad, Bad], [Bad, Blank], [Blank, Bad], [Blank, Blank]] {
            let found = newest([Sound(6, ()), Sound(6, ()), first, second]);
            assert_eq!(found, Err(NoneHolds::Damaged { turn: 1, at_most: Some(7) }));
        }
        assert_eq!(newest([Bad, Bad, Bad, Bad]), Err(NoneHolds::Damaged { turn: 0, at_most: None }));
        assert_eq!(newest([Blank, Blank, Blank, Blank]), Err(NoneHolds::Blank));
    }

    #[test]
    fn power_cut_at_any_write_leaves_old_or_new() {
        assert_eq!(newest([Bad, Sound(6, ()), Sound(7, ()), Sound(7, ())]), Ok(7), "first copy of number 8 is torn");
        assert_eq!(newest([Sound(8, ()), Bad, Sound(7, ()), Sound(7, ())]), Ok(8), "second copy of number 8 is torn");
    }

    #[test]
    fn version_1_falls_back_to_the_other_turn() {
        let newest = |copies| turns(copies).newest_of_version_1().map(|(number, ())| number);
        assert_eq!(newest([Sound(0, ()), Blank, Blank, Blank]), Some(0));
        assert_eq!(newest([Sound(2, ()), Blank, Bad, Blank]), Some(2));
        assert_eq!(newest([Bad, Blank, Blank, Blank]), None);
    }

    #[test]
    fn repairs_name_what_differs_from_its_twin() {
        let found = turns([Sound(8, ()), Sound(6, ()), Bad, Sound(7, ())]);
        assert_eq!(found.repairs(), [Repair { turn: 0, copy: 1 }, Repair { turn: 1, copy: 0 }]);
        assert_eq!(found.unsound().collect::<Vec<_>>(), [Repair { turn: 1, copy: 0 }], "an older copy is sound");
    }
}
