//! Raising and lowering the guard, as a state machine: its output is the next step, its input the
//! step's result.
//!
//! - *Raise* a guard that is down: the drive's beginning is copied to the two places near the
//!   drive's end and flushed; the labels record that the guard is up; the header is written and
//!   flushed.
//! - *Raise* a guard that is up (a start after a stop or a crash): the two copies are compared, and
//!   the second copy is made like the first. A copy that cannot be read is written from the
//!   readable copy. The header is written again if it is not intact.
//! - *Lower* the guard: the drive's beginning is written back from the first readable copy and
//!   flushed; the labels record that the guard is down.
//!
//! At every moment the labels record whether the beginning of the drive or the copies of the
//! beginning are valid. So a power cut at any point leaves valid content.
//!
//! While the guard is up, every sector in the header's place is the header's or, after a cut, the
//! volume's own. Any other content in the header's place was written by a program that used the
//! drive without the volume. A change of sectors with foreign content is refused, and is
//! overwritten only on request ([`Change::overwrite_foreign`]): the copies have the volume's own
//! content. One page of other content is refused, too, although one damaged page looks the same.
//! The header is zero behind its first page. So `dd` of zeroes over 100 MiB, a table of partitions
//! that was erased again, or a swap space that was used and erased leave one changed page.

use super::Area;
use crate::label::Guard;
use crate::units::{SECTOR_BYTES, SectorRange};

/// The next step of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Read of sectors of the drive; the answer is their content.
    Read(SectorRange),
    /// Write of bytes, from a sector on.
    Write(u64, Vec<u8>),
    /// Flush the drive.
    Flush,
    /// Write of the labels with the given state of the guard. Wait until the labels are stable on
    /// every member, the guarded drive's first.
    Label(Guard),
    /// Nothing: the guard is in the wanted state.
    Finished,
}

/// The result of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The write or flush of the step has succeeded.
    Done,
    /// The bytes that were read.
    Bytes(Vec<u8>),
    /// The sectors of the step cannot be read.
    Unreadable,
}

/// Reasons for which the guard cannot be raised or lowered. A failed attempt to raise or lower the
/// guard loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A sector, and every copy of the sector, cannot be read.
    #[error("sector {0} of the drive's beginning cannot be read, neither there nor from its copies")]
    Unreadable(u64),
    /// Another program used the drive.
    #[error(
        "sector {0} of the drive was written while its volume was attached, by a program that used the drive without \
         the volume (mkfs, wipefs, dd). The volume still has its own first MiB. `bimetal rescue` reports what else \
         was overwritten, and restores the first MiB. `bimetal serve --accept-loss` restores it without such a \
         report. The program's writes to the first MiB are lost then; its writes behind the first MiB are part of the \
         volume"
    )]
    Changed(u64),
}

/// Sectors that are read at once.
const CHUNK: u64 = 8;

/// A change under way.
pub struct Change {
    area: Area,
    header: Vec<u8>,
    goal: Guard,
    phase: Phase,
    /// The volume's content of the drive's beginning, as far as it is read.
    content: Vec<u8>,
    /// The current chunk in each place: the two copies, and the header's place.
    chunk: [Option<Vec<u8>>; 3],
    /// Steps that follow in order, the last first.
    queue: Vec<Step>,
    /// Writes that make the copies equal.
    mends: Vec<Step>,
    /// Set if the header is not intact.
    torn: bool,
    /// Set if another program's content in the header's place is to be overwritten.
    overwrites: bool,
    /// The first sector that another program wrote.
    foreign: Option<u64>,
    /// Sectors whose two copies can be read and differ.
    differing: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Reading the header's place from this sector on: the guard is down.
    Place(u64),
    /// Read of a chunk, by its number, from one of the three places, by its index: the guard is up.
    Compare(u64, usize),
    /// The queued steps are carried out.
    Queue,
}

impl Change {
    /// Raises a guard that is at `now` by the labels, with a header as long as its place.
    pub fn raise(area: Area, now: Guard, header: Vec<u8>) -> Self {
        Self::begin(area, now, Guard::Up, header)
    }

    /// Lowers a guard that is at `now` by the labels.
    pub fn lower(area: Area, now: Guard, header: Vec<u8>) -> Self {
        Self::begin(area, now, Guard::Down, header)
    }

    fn begin(area: Area, now: Guard, goal: Guard, header: Vec<u8>) -> Self {
        assert_eq!(header.len() as u64, area.place().len.0 * SECTOR_BYTES, "the header is as long as its place");
        let phase = match (now, goal) {
            (Guard::Up, _) => Phase::Compare(0, 0),
            (Guard::Down, Guard::Up) => Phase::Place(0),
            (Guard::Down, Guard::Down) => Phase::Queue,
        };
        let (content, chunk) = (Vec::new(), [None, None, None]);
        let (queue, mends) = (Vec::new(), Vec::new());
        let (torn, overwrites, foreign, differing) = (false, false, None, Vec::new());
        Self { area, header, goal, phase, content, chunk, queue, mends, torn, overwrites, foreign, differing }
    }

    /// Lets the change overwrite another program's content in the header's place, instead of
    /// refusing.
    pub fn overwrite_foreign(mut self) -> Self {
        self.overwrites = true;
        self
    }

    /// Returns the first sector that another program wrote and that was overwritten.
    pub fn overwrote(&self) -> Option<u64> {
        self.foreign
    }

    /// Returns the sectors of the drive's beginning whose two copies could be read and differed.
    /// The first copies count. Writes that a crash interrupts leave such sectors; otherwise one of
    /// the copies is damaged, and nothing tells which.
    pub fn differing(&self) -> &[u64] {
        &self.differing
    }

    /// Returns the next step. Every step except the last needs an [`answer`](Self::answer).
    pub fn next(&self) -> Step {
        match self.phase {
            Phase::Place(from) => Step::Read(self.chunk_of(from)),
            Phase::Compare(from, place) => {
                let chunk = self.chunk_of(from);
                let start = self.places()[place].start.0 + chunk.start.0;
                Step::Read(SectorRange::new(start, chunk.len.0))
            }
            Phase::Queue => self.queue.last().cloned().unwrap_or(Step::Finished),
        }
    }

    /// Takes the result of the step that [`next`](Self::next) returned.
    ///
    /// # Errors
    /// The change of the guard cannot go on. The caller may try the change again.
    pub fn answer(&mut self, answer: Answer) -> Result<(), ChangeError> {
        match self.phase {
            Phase::Place(from) => {
                let Answer::Bytes(bytes) = answer else { return Err(ChangeError::Unreadable(from)) };
                self.content.extend(bytes);
                let next = from + self.chunk_of(from).len.0;
                self.phase = Phase::Place(next);
                if next == self.area.place().len.0 {
                    self.plan_first_raise();
                }
            }
            Phase::Compare(from, place) => {
                self.chunk[place] = match answer {
                    Answer::Bytes(bytes) => Some(bytes),
                    Answer::Done | Answer::Unreadable => None,
                };
                self.phase = Phase::Compare(from, place + 1);
                if place == 2 {
                    self.compare(from)?;
                }
            }
            Phase::Queue => {
                self.queue.pop();
            }
        }
        Ok(())
    }

    fn places(&self) -> [SectorRange; 3] {
        let [first, second] = self.area.copies();
        [first, second, self.area.place()]
    }

    fn chunk_of(&self, from: u64) -> SectorRange {
        SectorRange::new(from, CHUNK.min(self.area.place().len.0 - from))
    }

    /// Plans the remaining steps of a raise from down, once the place is read.
    fn plan_first_raise(&mut self) {
        let [first, second] = self.area.copies();
        let content = std::mem::take(&mut self.content);
        self.plan([
            Step::Write(first.start.0, content.clone()),
            Step::Write(second.start.0, content),
            Step::Flush,
            Step::Label(Guard::Up),
            Step::Write(0, self.header.clone()),
            Step::Flush,
        ]);
    }

    fn plan(&mut self, steps: impl IntoIterator<Item = Step, IntoIter: DoubleEndedIterator>) {
        self.phase = Phase::Queue;
        self.queue.extend(steps.into_iter().rev());
    }

    /// Compares a chunk that was read from all three places; the guard is up.
    fn compare(&mut self, from: u64) -> Result<(), ChangeError> {
        let [first, second, place] = std::mem::take(&mut self.chunk);
        let Some(content) = first.as_ref().or(second.as_ref()).cloned() else {
            return Err(ChangeError::Unreadable(from));
        };
        let span = (from * SECTOR_BYTES) as usize;
        let header = &self.header[span..span + content.len()];
        if let Some(place) = &place {
            let foreign = foreign(from, place, &[Some(header), first.as_deref(), second.as_deref()]);
            if let Some(sector) = foreign.filter(|_| !self.overwrites) {
                return Err(ChangeError::Changed(sector));
            }
            self.foreign = self.foreign.or(foreign);
        }
        self.torn |= place.as_deref() != Some(header);
        if let (Some(first), Some(second)) = (&first, &second) {
            let sectors = first.chunks_exact(SECTOR_BYTES as usize).zip(second.chunks_exact(SECTOR_BYTES as usize));
            self.differing.extend(sectors.zip(from..).filter(|((one, other), _)| one != other).map(|(_, at)| at));
        }
        for (copy, at) in [first, second].iter().zip(self.area.copies()) {
            if copy.as_ref() != Some(&content) {
                self.mends.push(Step::Write(at.start.0 + from, content.clone()));
            }
        }
        self.content.extend(content);
        let next = from + self.chunk_of(from).len.0;
        self.phase = Phase::Compare(next, 0);
        if next == self.area.place().len.0 {
            self.plan_rest();
        }
        Ok(())
    }

    /// Plans the remaining steps of a change, once all chunks are compared.
    fn plan_rest(&mut self) {
        let mut steps = std::mem::take(&mut self.mends);
        if !steps.is_empty() {
            steps.push(Step::Flush);
        }
        match self.goal {
            Guard::Up if self.torn => steps.extend([Step::Write(0, self.header.clone()), Step::Flush]),
            Guard::Up => {}
            Guard::Down => {
                let content = std::mem::take(&mut self.content);
                steps.extend([Step::Write(0, content), Step::Flush, Step::Label(Guard::Down)]);
            }
        }
        self.plan(steps);
    }
}

/// Returns the first sector of `place` with none of the possible contents, of which the first is
/// the header.
fn foreign(from: u64, place: &[u8], possible: &[Option<&[u8]>]) -> Option<u64> {
    let sector = SECTOR_BYTES as usize;
    let mut sectors = place.chunks_exact(sector).enumerate();
    // The header comes first.
    let flips_max = |number: usize| u32::from(number == 0);
    let is_known = |at: usize, bytes: &[u8]| {
        possible.iter().enumerate().any(|(number, all)| {
            all.is_some_and(|all| flipped_bits(&all[at * sector..(at + 1) * sector], bytes) <= flips_max(number))
        })
    };
    sectors.find(|&(at, bytes)| !is_known(at, bytes)).map(|(at, _)| from + at as u64)
}

/// Returns the number of bits in which two sectors differ.
fn flipped_bits(one: &[u8], other: &[u8]) -> u32 {
    one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::header::header;
    use crate::label::tests::label;
    use crate::units::Sectors;

    const LENGTH: u64 = 16;
    const SIZE: u64 = 512;

    fn area() -> Area {
        Area::of_length(Sectors(SIZE), LENGTH).unwrap()
    }

    fn head() -> Vec<u8> {
        header(&label(), (LENGTH * SECTOR_BYTES) as usize)
    }

    /// A drive with a volatile cache, and the labels of its volume.
    #[derive(Clone)]
    struct Disk {
        stable: Vec<[u8; 512]>,
        pending: Vec<(usize, [u8; 512])>,
        unreadable: Vec<u64>,
        label: Guard,
    }

    impl Disk {
        /// Makes a disk whose sectors have different contents.
        fn new() -> Self {
            let stable = (0..SIZE).map(|sector| [sector as u8 ^ 0x5a; 512]).collect();
            Self { stable, pending: Vec::new(), unreadable: Vec::new(), label: Guard::Down }
        }

        fn read(&self, range: SectorRange) -> Option<Vec<u8>> {
            let mut seen = self.stable.clone();
            self.pending.iter().for_each(|(sector, bytes)| seen[*sector] = *bytes);
            let bad = self.unreadable.iter().any(|&bad| SectorRange::new(bad, 1).overlaps(range));
            (!bad).then(|| seen[range.start.0 as usize..range.end().0 as usize].concat())
        }

        fn write(&mut self, from: u64, bytes: &[u8]) {
            for (at, sector) in bytes.chunks_exact(512).enumerate() {
                self.unreadable.retain(|&bad| bad != from + at as u64);
                self.pending.push((from as usize + at, sector.try_into().unwrap()));
            }
        }

        fn flush(&mut self) {
            for (sector, bytes) in std::mem::take(&mut self.pending) {
                self.stable[sector] = bytes;
            }
        }

        /// Loses unflushed writes chosen by `seed`: 0 keeps all unflushed writes, 1 loses all of
        /// them.
        fn crash(&mut self, seed: u64) {
            for (at, (sector, bytes)) in std::mem::take(&mut self.pending).into_iter().enumerate() {
                let chance = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64).wrapping_mul(0xd129_0ed8_8d5c_4b2d);
                if seed == 0 || (seed > 1 && chance >> 63 == 1) {
                    self.stable[sector] = bytes;
                }
            }
        }

        /// Carries out at most `steps` of a change towards `goal`; `Ok(true)` if it ended.
        fn run(&mut self, goal: Guard, steps: usize) -> Result<bool, ChangeError> {
            self.carry_out(&mut Change::begin(area(), self.label, goal, head()), steps)
        }

        fn carry_out(&mut self, change: &mut Change, steps: usize) -> Result<bool, ChangeError> {
            for _ in 0..steps {
                let answer = match change.next() {
                    Step::Read(range) => self.read(range).map_or(Answer::Unreadable, Answer::Bytes),
                    Step::Write(from, bytes) => {
                        self.write(from, &bytes);
                        Answer::Done
                    }
                    Step::Flush => {
                        self.flush();
                        Answer::Done
                    }
                    // Labels of other members become stable without the content of this drive's
                    // write cache.
                    Step::Label(guard) => {
                        self.label = guard;
                        Answer::Done
                    }
                    Step::Finished => return Ok(true),
                };
                change.answer(answer)?;
            }
            Ok(change.next() == Step::Finished)
        }

        fn finish(&mut self, goal: Guard) {
            assert_eq!(self.run(goal, usize::MAX), Ok(true));
        }

        /// Checks the result of a change to `goal` that ended.
        fn check(&self, goal: Guard, content: &[u8]) {
            assert_eq!(self.label, goal);
            assert!(self.pending.is_empty());
            let place = self.read(area().place()).unwrap();
            if goal == Guard::Down {
                assert_eq!(place, content);
                return;
            }
            assert_eq!(place, head());
            for copy in area().copies() {
                assert_eq!(self.read(copy).unwrap(), content);
            }
        }
    }

    fn raised() -> (Disk, Vec<u8>) {
        let mut disk = Disk::new();
        let content = disk.read(area().place()).unwrap();
        disk.finish(Guard::Up);
        disk.check(Guard::Up, &content);
        (disk, content)
    }

    const GOALS: [Guard; 2] = [Guard::Up, Guard::Down];

    /// Cuts the power after every step of a change to `goal`, then after every step of the change
    /// that follows.
    fn cut_everywhere(begin: &Disk, content: &[u8], goal: Guard, seeds: u64) {
        for steps in 0.. {
            let mut whole = begin.clone();
            let ended = whole.run(goal, steps).unwrap();
            for seed in 0..seeds {
                let mut cut = whole.clone();
                cut.crash(seed);
                for next in GOALS {
                    let mut once = cut.clone();
                    once.finish(next);
                    once.check(next, content);
                    cut_again(&cut, content, next, seed);
                }
            }
            if ended {
                return;
            }
        }
    }

    fn cut_again(begin: &Disk, content: &[u8], goal: Guard, seed: u64) {
        for steps in 0.. {
            let mut twice = begin.clone();
            let ended = twice.run(goal, steps).unwrap();
            twice.crash(seed ^ steps as u64);
            for last in GOALS {
                let mut end = twice.clone();
                end.finish(last);
                end.check(last, content);
            }
            if ended {
                return;
            }
        }
    }

    #[test]
    fn a_raise_that_is_cut_anywhere_twice_loses_nothing() {
        let disk = Disk::new();
        let content = disk.read(area().place()).unwrap();
        cut_everywhere(&disk, &content, Guard::Up, 8);
    }

    #[test]
    fn a_lower_that_is_cut_anywhere_twice_loses_nothing() {
        let (disk, content) = raised();
        cut_everywhere(&disk, &content, Guard::Down, 8);
    }

    #[test]
    fn what_was_written_to_one_copy_only_is_decided_once() {
        let (begin, old) = raised();
        let [first, second] = area().copies();
        let new = vec![0xee; old.len()];
        for seed in 0..64 {
            let mut disk = begin.clone();
            for copy in [first, second] {
                disk.write(copy.start.0, &new);
            }
            disk.crash(seed);
            disk.finish(Guard::Up);
            let content = disk.read(first).unwrap();
            disk.check(Guard::Up, &content);
            for (at, sector) in content.chunks_exact(512).enumerate() {
                let range = at * 512..(at + 1) * 512;
                assert!(sector == &new[range.clone()] || sector == &old[range], "sector {at}");
            }
            // The other copy has the same content, and can be read.
            disk.unreadable = (first.start.0..first.end().0).collect();
            disk.finish(Guard::Down);
            disk.check(Guard::Down, &content);
        }
    }

    /// A sector that is readable in one copy can still be moved. The error names the place of a
    /// sector that no copy can read.
    #[test]
    fn change_needs_a_sector_in_one_copy_only() {
        let (begin, content) = raised();
        let [first, second] = area().copies();
        for sector in 0..LENGTH {
            for copy in [first, second] {
                let mut disk = begin.clone();
                disk.unreadable = vec![copy.start.0 + sector];
                disk.finish(Guard::Up);
                assert_eq!(disk.unreadable, []);
                disk.check(Guard::Up, &content);
            }
            let mut disk = begin.clone();
            disk.unreadable = vec![first.start.0 + sector, second.start.0 + sector];
            assert_eq!(disk.run(Guard::Up, usize::MAX), Err(ChangeError::Unreadable(sector / CHUNK * CHUNK)));
        }
    }

    /// A sector that another program wrote stops the change. Only `overwrite_foreign` overwrites
    /// foreign content.
    #[test]
    fn foreign_sector_is_overwritten_only_on_request() {
        let (begin, content) = raised();
        for sector in 0..LENGTH {
            let mut disk = begin.clone();
            disk.write(sector, &[0x77; 512]);
            disk.flush();
            for goal in GOALS {
                assert_eq!(disk.run(goal, usize::MAX), Err(ChangeError::Changed(sector)));
                assert_eq!(disk.read(SectorRange::new(sector, 1)).unwrap(), [0x77; 512]);
                let mut disk = disk.clone();
                let mut change = Change::begin(area(), disk.label, goal, head()).overwrite_foreign();
                assert_eq!(disk.carry_out(&mut change, usize::MAX), Ok(true));
                assert_eq!(change.overwrote(), Some(sector));
                disk.check(goal, &content);
            }
        }
    }

    /// Regression: one flipped bit in the header, on a drive that no program had touched, was taken
    /// for a program's write, and the volume was not served.
    #[test]
    fn flipped_bit_of_the_header_is_mended_and_two_are_refused() {
        let (begin, content) = raised();
        for sector in 0..LENGTH {
            let mut disk = begin.clone();
            let mut bytes = disk.read(SectorRange::new(sector, 1)).unwrap();
            bytes[100] ^= 0x10;
            disk.write(sector, &bytes);
            disk.finish(Guard::Up);
            disk.check(Guard::Up, &content);
            bytes[101] ^= 0x10;
            disk.write(sector, &bytes);
            assert_eq!(disk.run(Guard::Up, usize::MAX), Err(ChangeError::Changed(sector)));
        }
    }

    /// Regression: where the copies of the beginning differed, the second copy was made like the
    /// first, and nothing told of it. An older page in the first copy was read as the newest
    /// content.
    #[test]
    fn sectors_whose_copies_differ_are_named() {
        let (mut disk, content) = raised();
        let second = area().copies()[1].start.0;
        for sector in [3, 9] {
            disk.write(second + sector, &[0x77; 512]);
        }
        let mut change = Change::begin(area(), disk.label, Guard::Up, head());
        assert_eq!(disk.carry_out(&mut change, usize::MAX), Ok(true));
        assert_eq!(change.differing(), [3, 9]);
        disk.check(Guard::Up, &content);
        let mut again = Change::begin(area(), disk.label, Guard::Up, head());
        assert_eq!(disk.carry_out(&mut again, usize::MAX), Ok(true));
        assert!(again.differing().is_empty(), "they are equal now");
    }
}
