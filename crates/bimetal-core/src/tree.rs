//! Trees: a volume whose members are drives, or volumes again. An operation of an outer volume on
//! an inner volume is a request to the inner volume. Only operations on a leaf leave the tree.
//!
//! A tree has the interface of a volume. Members that are drives are its *leaves*, numbered through
//! the whole tree. A single volume is a tree whose leaves are its members.

use std::collections::VecDeque;

use crate::layout::MemberId;
use crate::operation::{Completion, Operation, Token};
use crate::payload::Payload;
use crate::scheme::{Foresight, Wear};
use crate::units::{Nanoseconds, SectorRange, Sectors};
use crate::volume::Volume;

/// A member of a volume in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// The drive with this number.
    Leaf(u16),
    /// The first unit of the volume with this number.
    Volume(u16),
}

struct Node<P: Payload> {
    volume: Volume<P>,
    /// The volume that has this volume as a member; `None` for the outermost volume.
    above: Option<usize>,
    members: Vec<Member>,
    /// Number of operations that the volume above sent as requests. `given_back` is the number of
    /// these operations that the volume has finished.
    taken: u64,
    given_back: u64,
}

/// See the [module](self).
pub struct Tree<P: Payload> {
    nodes: Vec<Node<P>>,
    /// The volume of each leaf, by index.
    leaves: Vec<usize>,
    /// Operations for leaves; unused if there is only one volume.
    outgoing: VecDeque<Operation<P>>,
}

impl<P: Payload> From<Volume<P>> for Tree<P> {
    fn from(volume: Volume<P>) -> Self {
        let members = (0..volume.view().members.len() as u16).map(Member::Leaf).collect();
        Self::new(vec![(volume, members)])
    }
}

impl<P: Payload> Tree<P> {
    /// Makes a tree of volumes with their members. The outermost volume is first, and each volume
    /// comes before its members.
    ///
    /// # Panics
    /// Panics if a volume or a leaf is missing, or is a member of two volumes.
    pub fn new(volumes: Vec<(Volume<P>, Vec<Member>)>) -> Self {
        let mut above = vec![None; volumes.len()];
        let mut leaves = Vec::new();
        for (at, (volume, members)) in volumes.iter().enumerate() {
            assert_eq!(volume.view().members.len(), members.len(), "a volume has as many members as it was made with");
            for member in members {
                match *member {
                    Member::Volume(below) => {
                        assert!(usize::from(below) > at, "volumes stand before their members");
                        assert_eq!(above[usize::from(below)].replace(at), None, "a volume is a member once");
                    }
                    Member::Leaf(leaf) => leaves.push((leaf, at)),
                }
            }
        }
        leaves.sort_unstable();
        assert!(leaves.iter().zip(0..).all(|(&(leaf, _), number)| leaf == number), "leaves are numbered from 0 on");
        assert!(above[1..].iter().all(Option::is_some), "every volume but the outermost is a member");
        let node = |((volume, members), above)| Node { volume, above, members, taken: 0, given_back: 0 };
        let nodes = volumes.into_iter().zip(above).map(node).collect();
        Self { nodes, leaves: leaves.into_iter().map(|(_, at)| at).collect(), outgoing: VecDeque::new() }
    }

    /// Returns the outermost volume.
    #[inline]
    pub fn outermost(&self) -> &Volume<P> {
        &self.nodes[0].volume
    }

    /// Returns the outermost volume, for changes.
    pub fn outermost_mut(&mut self) -> &mut Volume<P> {
        &mut self.nodes[0].volume
    }

    /// Returns all volumes, the outermost first.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume<P>> {
        self.nodes.iter().map(|node| &node.volume)
    }

    /// Returns true if the decisions of any scheme depend on its drives.
    pub fn watches_drives(&self) -> bool {
        self.volumes().any(Volume::watches_drives)
    }

    /// Supplies facts about the workload, before the first request. Inner volumes get no files: an
    /// inner volume has other addresses than the host.
    pub fn foresee(&mut self, foresight: &Foresight<'_>) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let files = if at == 0 { foresight.files } else { &[] };
            node.volume.foresee(&Foresight { files, ..*foresight });
        }
    }

    /// Tells every volume that half of the workload has passed.
    pub fn half_passed(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.volume.half_passed());
    }

    /// Takes the volumes apart again, each with its members, to be part of a larger tree.
    ///
    /// # Panics
    /// Panics if there are operations that were not [taken](Self::next_operation): these operations
    /// would be lost.
    pub fn into_volumes(self) -> Vec<(Volume<P>, Vec<Member>)> {
        assert!(self.outgoing.is_empty(), "operations of a tree that is taken apart are lost");
        self.nodes.into_iter().map(|node| (node.volume, node.members)).collect()
    }

    /// Returns the size of each unit.
    pub fn units(&self) -> impl Iterator<Item = Sectors> {
        self.outermost().units()
    }

    /// Works as [`Volume::submit`], for the outermost volume.
    #[inline]
    pub fn submit(&mut self, now: Nanoseconds, request: Operation<P>) {
        self.nodes[0].volume.submit(now, request);
        self.pass_on(now);
    }

    /// Works as [`Volume::complete`], from a leaf.
    ///
    /// # Panics
    /// Panics if no operation with this token is under way on the leaf.
    #[inline]
    pub fn complete(&mut self, now: Nanoseconds, leaf: u16, completion: Completion<P>) {
        self.nodes[self.leaves[usize::from(leaf)]].volume.complete(now, completion);
        self.pass_on(now);
    }

    /// Works as [`Volume::answer_hint`], from a leaf.
    ///
    /// # Panics
    /// Panics if no operation with this token is under way on the leaf.
    pub fn answer_hint(&mut self, now: Nanoseconds, leaf: u16, token: Token, fragmented: &[SectorRange]) {
        self.nodes[self.leaves[usize::from(leaf)]].volume.answer_hint(now, token, fragmented);
        self.pass_on(now);
    }

    /// Works as [`Volume::tell_evicted`], for the outermost volume, which is the volume that a host
    /// sees.
    pub fn tell_evicted(&mut self, now: Nanoseconds, unit: u16, range: SectorRange) {
        self.nodes[0].volume.tell_evicted(now, unit, range);
    }

    /// Works as [`Volume::pin`], for the outermost volume.
    pub fn pin(&mut self, now: Nanoseconds, unit: u16, range: SectorRange, pinned: bool) -> bool {
        self.nodes[0].volume.pin(now, unit, range, pinned)
    }

    /// Works as [`Volume::tell_wear`], from a leaf, which is `member` of its volume.
    pub fn tell_wear(&mut self, now: Nanoseconds, leaf: u16, member: MemberId, wear: Wear) {
        self.nodes[self.leaves[usize::from(leaf)]].volume.tell_wear(now, member, wear);
    }

    /// Works as [`Volume::halts_wear_levelling`], for the volume of a leaf.
    pub fn halts_wear_levelling(&self, leaf: u16) -> bool {
        self.nodes[self.leaves[usize::from(leaf)]].volume.halts_wear_levelling()
    }

    /// Works as [`Volume::advance`], for every volume.
    pub fn advance(&mut self, now: Nanoseconds) {
        for node in &mut self.nodes {
            node.volume.advance(now);
        }
        self.pass_on(now);
    }

    /// Returns the earliest time at which a volume must be called.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanoseconds> {
        match self.nodes.as_slice() {
            [only] => only.volume.next_timeout(),
            nodes => nodes.iter().filter_map(|node| node.volume.next_timeout()).min(),
        }
    }

    /// Returns the next operation to start on a leaf, whose number is its `target`.
    #[inline]
    pub fn next_operation(&mut self) -> Option<Operation<P>> {
        match self.nodes.as_mut_slice() {
            [only] => only.volume.next_operation(),
            _ => self.outgoing.pop_front(),
        }
    }

    /// Returns the next finished request.
    #[inline]
    pub fn next_finished(&mut self) -> Option<Completion<P>> {
        self.nodes[0].volume.next_finished()
    }

    /// Passes operations down and completions up until only leaves have work.
    #[inline]
    fn pass_on(&mut self, now: Nanoseconds) {
        if self.nodes.len() > 1 {
            while self.pass_down(now) | self.pass_up(now) {}
        }
    }

    /// Passes operations down once. Returns true if a volume got an operation.
    fn pass_down(&mut self, now: Nanoseconds) -> bool {
        let mut any = false;
        for at in 0..self.nodes.len() {
            while let Some(operation) = self.nodes[at].volume.next_operation() {
                match self.nodes[at].members[usize::from(operation.target)] {
                    Member::Leaf(leaf) => self.outgoing.push_back(Operation { target: leaf, ..operation }),
                    Member::Volume(below) => {
                        any = true;
                        let below = &mut self.nodes[usize::from(below)];
                        below.taken += 1;
                        below.volume.submit(now, Operation { target: 0, ..operation });
                    }
                }
            }
        }
        any
    }

    /// Passes completions up once. Returns true if a volume got an operation.
    fn pass_up(&mut self, now: Nanoseconds) -> bool {
        let mut any = false;
        for at in (1..self.nodes.len()).rev() {
            let Some(above) = self.nodes[at].above else { continue };
            while let Some(finished) = self.nodes[at].volume.next_finished() {
                any = true;
                self.nodes[at].given_back += 1;
                self.nodes[above].volume.complete(now, finished);
            }
        }
        any
    }

    /// Checks that every operation given to an inner volume arrived at that volume, and that every
    /// finished operation was returned.
    ///
    /// # Errors
    /// The number of the volume, and its counts.
    pub fn check_conservation(&self) -> Result<(), String> {
        for (at, Node { volume, taken, given_back, .. }) in self.nodes.iter().enumerate().skip(1) {
            let statistics = volume.statistics();
            if (statistics.arrived, statistics.finished) != (*taken, *given_back) {
                let (arrived, finished) = (statistics.arrived, statistics.finished);
                return Err(format!(
                    "volume {at} was given {taken} operations and gave {given_back} back, but {arrived} arrived there and \
                     {finished} finished"
                ));
            }
        }
        Ok(())
    }
}
