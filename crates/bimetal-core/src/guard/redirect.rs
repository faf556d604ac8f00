//! Operations on a guarded drive: operations on the drive's beginning go to the two copies.
//!
//! Writes and zeroes go to both copies. Discards become zeroes, so that the copies stay equal.
//! Reads come from the first copy, and from the second if the first cannot be read. Where a change
//! failed, or a flush after it, the copies may differ, and a read that fails in the first copy
//! fails. An operation across the end of the guarded beginning is divided at this end. All other
//! operations but flushes pass with their own token. The volume orders operations that overlap, so
//! the copies never get two writes in different order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use slab::Slab;

use super::Area;
use crate::operation::{Command, Completion, OpKind, Operation, Status, Token};
use crate::payload::Payload;
use crate::units::{SectorRange, Sectors};

/// Bit of the tokens made here; no volume reaches it by counting.
const OURS: u64 = 1 << 63;

/// See the [module](self).
pub struct Redirect<P> {
    area: Area,
    whole: Slab<Whole<P>>,
    parts: Slab<Part>,
    /// Number of parts begun so far.
    begun: u64,
    outgoing: VecDeque<Operation<P>>,
    /// Sectors of the beginning whose copies may differ: a change failed, perhaps in one copy, or a
    /// flush failed, and the drive may have dropped what one copy got. Reads of such a sector come
    /// from the first copy alone, until a change of the sector succeeds.
    apart: BTreeSet<u64>,
    /// Sectors of the beginning that changed, with the number of parts begun before the end of
    /// the change; not those that a flush has made stable.
    unstable: BTreeMap<u64, u64>,
}

/// An operation that was cut or doubled.
struct Whole<P> {
    token: Token,
    target: u16,
    command: Command,
    outstanding: u32,
    status: Status,
    /// The content that a read returned: from the guarded beginning, and from the sectors after it.
    read: [Option<P>; 2],
    /// Number of parts begun before the operation.
    begun: u64,
}

/// A part of a cut or doubled operation.
struct Part {
    whole: usize,
    /// The sectors of the part, counted from the drive's beginning as the volume sees it.
    range: SectorRange,
    /// The copy of the part, or `None` after the guarded beginning.
    copy: Option<usize>,
}

impl<P: Payload> Redirect<P> {
    /// Makes a redirect for a drive with the guard's area `area`.
    pub fn new(area: Area) -> Self {
        Self {
            area,
            whole: Slab::new(),
            parts: Slab::new(),
            begun: 0,
            outgoing: VecDeque::new(),
            apart: BTreeSet::new(),
            unstable: BTreeMap::new(),
        }
    }

    /// Takes an operation of the volume.
    pub fn submit(&mut self, operation: Operation<P>) {
        let Operation { token, target, command, payload } = operation;
        assert!(token.0 & OURS == 0, "a volume counts its tokens from 0");
        let SectorRange { start, len } = command.range;
        let border = self.area.place().len.0;
        let flushes = command.kind == OpKind::Flush;
        if !flushes && (command.kind == OpKind::Hint || start.0 >= border || len.0 == 0) {
            return self.outgoing.push_back(Operation { token, target, command, payload });
        }
        let inside = len.0.min(border.saturating_sub(start.0));
        let whole = Whole {
            token,
            target,
            command,
            outstanding: 0,
            status: Status::Done,
            read: [None, None],
            begun: self.begun,
        };
        let whole = self.whole.insert(whole);
        if flushes {
            return self.begin(whole, command.range, None, payload);
        }
        let of = |from: u64, count: u64| match command.kind {
            OpKind::Write => payload.slice(Sectors(from), Sectors(count)),
            _ => P::empty(),
        };
        let copies = if command.kind == OpKind::Read { 1 } else { 2 };
        for copy in 0..copies {
            self.begin(whole, SectorRange::new(start.0, inside), Some(copy), of(0, inside));
        }
        if inside < len.0 {
            self.begin(whole, SectorRange::new(border, len.0 - inside), None, of(inside, len.0 - inside));
        }
    }

    /// Returns the next operation to start on the drive.
    pub fn next_operation(&mut self) -> Option<Operation<P>> {
        self.outgoing.pop_front()
    }

    /// Takes a completion of the drive. Returns a completion for the volume if the completion ends
    /// an operation of the volume.
    pub fn complete(&mut self, completion: Completion<P>) -> Option<Completion<P>> {
        let Completion { token, status, payload } = completion;
        if token.0 & OURS == 0 {
            return Some(Completion { token, status, payload });
        }
        let part = self.parts.remove((token.0 & !OURS) as u32 as usize);
        let whole = &mut self.whole[part.whole];
        let is_equal = self.apart.range(part.range.start.0..part.range.end().0).next().is_none();
        if status == Status::MediaError && whole.command.kind == OpKind::Read && part.copy == Some(0) && is_equal {
            whole.outstanding -= 1;
            self.begin(part.whole, part.range, Some(1), P::empty());
            return None;
        }
        if status == Status::Done && whole.command.kind == OpKind::Read {
            whole.read[usize::from(part.copy.is_none())] = Some(payload);
        }
        let before = part.range.start.0 - whole.command.range.start.0;
        whole.status = worse(whole.status, counted_from(before, status));
        whole.outstanding -= 1;
        if whole.outstanding > 0 {
            return None;
        }
        let Whole { token, command, status, read, begun, .. } = self.whole.remove(part.whole);
        if command.kind.changes_content() {
            self.note_change(command.range, status);
        }
        let flushes = command.kind == OpKind::Flush;
        if (flushes || command.fua) && !matches!(status, Status::Done | Status::Unsupported) {
            self.apart.extend(std::mem::take(&mut self.unstable).into_keys());
        } else if flushes {
            self.unstable.retain(|_, changed| *changed > begun);
        }
        let mut payload = P::empty();
        if status == Status::Done {
            read.into_iter().flatten().for_each(|part| payload.join(part));
        }
        Some(Completion { token, status, payload })
    }

    /// Notes the end of a change of sectors of the beginning, and perhaps of sectors after it.
    fn note_change(&mut self, range: SectorRange, status: Status) {
        let border = self.area.place().len.0;
        for sector in range.start.0..range.end().0.min(border) {
            self.unstable.insert(sector, self.begun);
            if status == Status::Done {
                self.apart.remove(&sector);
            } else {
                self.apart.insert(sector);
            }
        }
    }

    fn begin(&mut self, whole: usize, range: SectorRange, copy: Option<usize>, payload: P) {
        let own = &mut self.whole[whole];
        own.outstanding += 1;
        let shift = copy.map_or(0, |copy| self.area.copies()[copy].start.0);
        let mut command = Command { range: SectorRange::new(range.start.0 + shift, range.len.0), ..own.command };
        if copy.is_some() && command.kind == OpKind::Discard {
            // A drive may keep discarded sectors in one place and zero them in another.
            command.kind = OpKind::WriteZeroes;
        }
        let part = self.parts.insert(Part { whole, range, copy });
        self.begun += 1;
        // The slab uses an index again, but a token never repeats: it also has the number of
        // operations begun.
        let token = Token(OURS | (self.begun << 32) & !OURS | part as u64);
        self.outgoing.push_back(Operation { token, target: own.target, command, payload });
    }
}

/// Returns a part's status, counted in sectors of the whole.
fn counted_from(before: u64, status: Status) -> Status {
    match status {
        Status::Short(done) => Status::Short((before + u64::from(done)) as u32),
        status => status,
    }
}

/// Returns the worse status of two parts. From the worst: gone, failed, out of range, unsupported,
/// short.
fn worse(one: Status, other: Status) -> Status {
    let rank = |status: Status| match status {
        Status::Done => 0,
        Status::Short(_) => 1,
        Status::Unsupported => 2,
        Status::OutOfRange => 3,
        Status::MediaError => 4,
        Status::Gone => 5,
    };
    match (one, other) {
        (Status::Short(one), Status::Short(other)) => Status::Short(one.min(other)),
        _ if rank(other) > rank(one) => other,
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Payload with a number for each sector.
    #[derive(Clone, PartialEq, Debug)]
    struct Numbers(Vec<u64>);

    impl Payload for Numbers {
        const CARRIES_DATA: bool = true;

        fn empty() -> Self {
            Self(Vec::new())
        }

        fn zeroes(len: Sectors) -> Self {
            Self(vec![0; len.0 as usize])
        }

        fn slice(&self, start: Sectors, len: Sectors) -> Self {
            Self(self.0[start.0 as usize..][..len.0 as usize].to_vec())
        }

        fn join(&mut self, tail: Self) {
            self.0.extend(tail.0);
        }

        fn sectors(&self) -> Sectors {
            Sectors(self.0.len() as u64)
        }

        fn checksum(&self) -> u32 {
            0
        }

        fn from_metadata(_bytes: &[u8]) -> Self {
            Self::empty()
        }

        fn to_metadata(&self) -> Vec<u8> {
            Vec::new()
        }
    }

    const SIZE: u64 = 300;
    const LENGTH: u64 = 16;

    fn redirect() -> Redirect<Numbers> {
        Redirect::new(Area::of_length(Sectors(SIZE), LENGTH).unwrap())
    }

    fn operation(token: u64, kind: OpKind, start: u64, payload: Vec<u64>, len: u64) -> Operation<Numbers> {
        let command = Command { kind, range: SectorRange::new(start, len), fua: false };
        Operation { token: Token(token), target: 3, command, payload: Numbers(payload) }
    }

    /// Carries out, on `drive`, the operations that the redirect sends; reads of sectors in `bad`
    /// fail.
    fn carry_out(redirect: &mut Redirect<Numbers>, drive: &mut [u64], bad: &[u64]) -> Option<Completion<Numbers>> {
        while let Some(Operation { token, target, command, payload }) = redirect.next_operation() {
            assert_eq!(target, 3);
            let SectorRange { start, len } = command.range;
            let sectors = &mut drive[start.0 as usize..][..len.0 as usize];
            let mut completion = Completion { token, status: Status::Done, payload: Numbers::empty() };
            match command.kind {
                OpKind::Read if bad.iter().any(|&bad| SectorRange::new(bad, 1).overlaps(command.range)) => {
                    completion.status = Status::MediaError;
                }
                OpKind::Read => completion.payload = Numbers(sectors.to_vec()),
                OpKind::Write => sectors.copy_from_slice(&payload.0),
                OpKind::WriteZeroes | OpKind::Discard => sectors.fill(0),
                OpKind::Flush | OpKind::Hint => {}
            }
            if let Some(ended) = redirect.complete(completion) {
                return Some(ended);
            }
        }
        None
    }

    proptest! {
        /// A guarded drive answers as a plain drive does, even if one sector of a copy is
        /// unreadable. The header is not changed.
        #[test]
        fn guarded_drive_answers_as_a_plain_one(
            operations in proptest::collection::vec((0u8..4, 0u64..60, 1u64..40), 1..60),
            bad in 0u64..LENGTH,
        ) {
            let mut redirect = redirect();
            let [first, _] = redirect.area.copies();
            let (mut drive, mut plain) = (vec![0; SIZE as usize], vec![0; 100]);
            drive[..LENGTH as usize].fill(u64::MAX);
            for (token, (kind, start, len)) in operations.into_iter().enumerate() {
                let kind = [OpKind::Read, OpKind::Write, OpKind::WriteZeroes, OpKind::Flush][usize::from(kind)];
                let len = if kind == OpKind::Flush { 0 } else { len };
                let sectors = &mut plain[start as usize..][..len as usize];
                let mut payload = Vec::new();
                match kind {
                    OpKind::Write => {
                        payload = (0..len).map(|at| token as u64 * 1000 + at).collect();
                        sectors.copy_from_slice(&payload);
                    }
                    OpKind::WriteZeroes => sectors.fill(0),
                    _ => {}
                }
                let expected = if kind == OpKind::Read { sectors.to_vec() } else { Vec::new() };
                redirect.submit(operation(token as u64, kind, start, payload, len));
                let ended = carry_out(&mut redirect, &mut drive, &[first.start.0 + bad]);
                let ended = ended.expect("an operation ends");
                prop_assert_eq!(ended, Completion { token: Token(token as u64), status: Status::Done, payload: Numbers(expected) });
                prop_assert!(redirect.whole.is_empty() && redirect.parts.is_empty());
            }
            prop_assert!(drive[..LENGTH as usize].iter().all(|&sector| sector == u64::MAX));
            let [first, second] = redirect.area.copies().map(|copy| copy.start.0 as usize);
            prop_assert_eq!(&drive[first..][..LENGTH as usize], &drive[second..][..LENGTH as usize]);
        }
    }

    /// A sector that no copy can read fails the read. A short write reports its length in the
    /// addresses of the volume.
    #[test]
    fn unreadable_and_short_operations_keep_volume_addresses() {
        let mut redirect = redirect();
        let copies = redirect.area.copies();
        let mut drive = vec![0; SIZE as usize];
        redirect.submit(operation(1, OpKind::Read, 4, vec![], 30));
        let bad = copies.map(|copy| copy.start.0 + 5);
        let ended = carry_out(&mut redirect, &mut drive, &bad).unwrap();
        assert_eq!((ended.token, ended.status), (Token(1), Status::MediaError));
        redirect.submit(operation(2, OpKind::Write, 4, vec![7; 30], 30));
        let answers = [Status::Done, Status::Done, Status::Short(3)];
        let ended = answers.into_iter().filter_map(|status| {
            let token = redirect.next_operation().unwrap().token;
            redirect.complete(Completion { token, status, payload: Numbers::empty() })
        });
        let ended: Vec<_> = ended.map(|completion| completion.status).collect();
        assert_eq!(ended, [Status::Short(15)]);
    }
}
