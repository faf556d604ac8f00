//! Recovery of a tree from the content of the leaves. Volumes are formatted and recovered from the
//! leaves up, each over the volumes that are its members. Recovered parts of the tree continue
//! their moves and timers while other parts are recovered.

use bimetal_core::layout::MemberId;
use bimetal_core::operation::{Completion, Operation, Status};
use bimetal_core::tree::{Member, Tree};
use bimetal_core::units::Nanoseconds;
use bimetal_core::volume::{self, Recovery, Volume};

use super::TreeTester;
use super::shape::Place;
use crate::drive::Drive;
use crate::payload::Tags;

/// Number of successive recoveries that may fail because a drive fails.
const REFUSALS_MAX: u32 = 4;

/// A tree or subtree, with the numbers that its leaves have in the whole tree.
pub(super) struct Part {
    pub(super) tree: Tree<Tags>,
    leaves: Vec<u16>,
}

impl Part {
    pub(super) fn next_operation(&mut self) -> Option<Operation<Tags>> {
        let operation = self.tree.next_operation()?;
        Some(Operation { target: self.leaves[usize::from(operation.target)], ..operation })
    }

    /// Passes on a completion from a leaf of the whole tree, if the leaf belongs to this part.
    /// Completions for abandoned parts are ignored.
    pub(super) fn complete(&mut self, now: Nanoseconds, leaf: u16, completion: Completion<Tags>) {
        if let Some(own) = self.leaves.iter().position(|&other| other == leaf) {
            self.tree.complete(now, own as u16, completion);
        }
    }
}

/// Member of a volume that is being recovered.
enum Below {
    Leaf(u16),
    Part(Box<Part>),
    /// The member could not be recovered.
    Missing,
}

/// Surroundings of a volume that is being recovered.
struct Surroundings {
    /// Members of the volume.
    below: Vec<Below>,
    /// Parts of the tree that are not below the volume.
    beside: Vec<Option<Part>>,
}

impl Surroundings {
    fn parts(&mut self) -> impl Iterator<Item = &mut Part> {
        let below = self.below.iter_mut().filter_map(|below| match below {
            Below::Part(part) => Some(&mut **part),
            _ => None,
        });
        below.chain(self.beside.iter_mut().flatten())
    }

    /// Advances the time of every part.
    fn advance(&mut self, now: Nanoseconds) {
        self.parts().for_each(|part| part.tree.advance(now));
    }
}

/// A volume that is being formatted or recovered, and issues operations to its members.
trait Asks {
    fn next(&mut self) -> Option<Operation<Tags>>;
    fn answer(&mut self, completion: Completion<Tags>);
    fn is_done(&self) -> bool;
}

impl Asks for Recovery<Tags> {
    fn next(&mut self) -> Option<Operation<Tags>> {
        self.next_operation()
    }

    fn answer(&mut self, completion: Completion<Tags>) {
        self.complete(completion);
    }

    fn is_done(&self) -> bool {
        self.is_finished()
    }
}

/// Operations of a format, executed one after the other.
struct Format {
    left: std::vec::IntoIter<Operation<Tags>>,
    under_way: bool,
    failed: Option<Status>,
}

impl Asks for Format {
    fn next(&mut self) -> Option<Operation<Tags>> {
        let next = if self.under_way { None } else { self.left.next() };
        self.under_way |= next.is_some();
        next
    }

    fn answer(&mut self, completion: Completion<Tags>) {
        self.under_way = false;
        self.failed = self.failed.or((completion.status != Status::Done).then_some(completion.status));
    }

    fn is_done(&self) -> bool {
        !self.under_way && self.left.as_slice().is_empty()
    }
}

impl TreeTester {
    /// Formats the leaves as a tree. Returns false if the formatting fails.
    pub(super) fn format(&mut self) -> Result<bool, String> {
        self.bring_up(true)
    }

    /// Recovers the tree. Returns false if the tree is lost, or the power was cut.
    pub(super) fn recover(&mut self) -> Result<bool, String> {
        self.bring_up(false)
    }

    fn bring_up(&mut self, format: bool) -> Result<bool, String> {
        let volumes = self.drawn.volumes.len();
        let mut around = Surroundings { below: Vec::new(), beside: (0..volumes).map(|_| None).collect() };
        for number in (0..volumes).rev() {
            let places = self.drawn.volumes[number].members.clone();
            let below = places.iter().map(|place| match *place {
                Place::Leaf(leaf) => Below::Leaf(leaf),
                Place::Volume(other) => {
                    around.beside[other].take().map_or(Below::Missing, |part| Below::Part(Box::new(part)))
                }
            });
            around.below = below.collect();
            if format {
                let operations = volume::format::<Tags>(&self.drawn.volumes[number].config(number));
                let operations = operations.map_err(|error| error.to_string())?.into_iter();
                let mut format = Format { left: operations, under_way: false, failed: None };
                self.let_ask(&mut format, &mut around)?;
                if let Some(status) = format.failed {
                    return Err(format!("making a volume of sound drives ended with {status:?}"));
                }
            }
            let volume = self.recover_volume(number, &mut around)?;
            self.start_what_is_left(&mut around);
            if self.cut {
                return Ok(false);
            }
            let gone = self.drives.len() as u16 - 1;
            let below = std::mem::take(&mut around.below);
            around.beside[number] = volume.map(|volume| put_together(volume, below, gone));
        }
        self.tree = around.beside.swap_remove(0);
        Ok(self.tree.is_some())
    }

    /// Starts the operations that the parts have pending, before the parts are taken apart.
    fn start_what_is_left(&mut self, around: &mut Surroundings) {
        for part in around.parts() {
            while let Some(operation) = part.next_operation() {
                if !self.start(operation) {
                    return;
                }
            }
        }
    }

    /// Recovers one volume over its members. Returns `None` if the volume cannot be recovered, or
    /// the power was cut.
    fn recover_volume(&mut self, number: usize, around: &mut Surroundings) -> Result<Option<Volume<Tags>>, String> {
        for _ in 0..REFUSALS_MAX {
            let is_absent = |below: &Below| match below {
                Below::Leaf(leaf) => self.drives[usize::from(*leaf)].is_gone(),
                Below::Part(_) => false,
                Below::Missing => true,
            };
            let absent = around.below.iter().enumerate().filter(|(_, below)| is_absent(below));
            let absent: Vec<MemberId> = absent.map(|(member, _)| MemberId(member as u16)).collect();
            let config = self.drawn.volumes[number].config(number);
            let mut recovery = Recovery::new(&config, &absent).map_err(|error| error.to_string())?;
            self.let_ask(&mut recovery, around)?;
            if self.cut {
                return Ok(None);
            }
            match recovery.finish() {
                Ok(mut volume) => {
                    self.drawn.volumes[number].commit_early(&mut volume);
                    return Ok(Some(volume));
                }
                Err(error) if !self.may_fail() && absent.is_empty() && !self.any_gone() => {
                    return Err(format!("recovery fails and no fault explains it: {error}"));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    fn any_gone(&self) -> bool {
        let leaves = self.drives.len() - 1;
        self.drives[..leaves].iter().any(Drive::is_gone)
    }

    /// Executes the operations of a format or recovery until it is done or the power is cut.
    fn let_ask(&mut self, asks: &mut dyn Asks, around: &mut Surroundings) -> Result<(), String> {
        self.events = 0;
        loop {
            while let Some(operation) = asks.next() {
                let now = self.now;
                match &mut around.below[usize::from(operation.target)] {
                    Below::Leaf(leaf) => {
                        let operation = Operation { target: *leaf, ..operation };
                        if !self.start(operation) {
                            return Ok(());
                        }
                    }
                    Below::Part(part) => part.tree.submit(now, Operation { target: 0, ..operation }),
                    Below::Missing => return Err("a recovery asks a member that is missing".into()),
                }
            }
            let answered = self.settle(asks, around);
            if self.cut || asks.is_done() || (!answered && !self.pass_time(asks, around)?) {
                return Ok(());
            }
        }
    }

    /// Takes operations and answers from the parts until the power is cut. Returns true if there
    /// was any answer.
    fn settle(&mut self, asks: &mut dyn Asks, around: &mut Surroundings) -> bool {
        let mut answered = false;
        self.start_what_is_left(around);
        for below in &mut around.below {
            let Below::Part(part) = below else { continue };
            while let Some(finished) = part.tree.next_finished() {
                asks.answer(finished);
                answered = true;
            }
        }
        answered
    }

    /// Handles the next event. Returns false if the power is cut at this event.
    fn pass_time(&mut self, asks: &mut dyn Asks, around: &mut Surroundings) -> Result<bool, String> {
        let timeouts = around.parts().filter_map(|part| part.tree.next_timeout());
        let next = self.drives.iter().filter_map(Drive::next_due).chain(timeouts).min();
        self.events += 1;
        let Some(next) = next.filter(|_| self.events < super::EVENTS_MAX) else {
            return Err("a volume that is brought up waits for nothing".into());
        };
        self.now = self.now.max(next);
        let now = self.now;
        match self.end_due() {
            Some((leaf, completion)) => {
                let is_own = around.below.iter().any(|below| matches!(below, Below::Leaf(own) if *own == leaf));
                if is_own {
                    asks.answer(completion);
                } else if let Some(part) = around.parts().find(|part| part.leaves.contains(&leaf)) {
                    part.complete(now, leaf, completion);
                }
                Ok(true)
            }
            None if self.cut => Ok(false),
            None => {
                around.advance(now);
                Ok(true)
            }
        }
    }
}

/// Joins a volume and its members into one tree. A missing member becomes a leaf that is gone.
fn put_together(volume: Volume<Tags>, below: Vec<Below>, gone: u16) -> Part {
    let mut volumes = vec![(volume, Vec::new())];
    let mut leaves = Vec::new();
    for below in below {
        let member = match below {
            Below::Leaf(leaf) => {
                leaves.push(leaf);
                Member::Leaf(leaves.len() as u16 - 1)
            }
            Below::Missing => {
                leaves.push(gone);
                Member::Leaf(leaves.len() as u16 - 1)
            }
            Below::Part(part) => {
                let (first, first_leaf) = (volumes.len() as u16, leaves.len() as u16);
                leaves.extend(part.leaves);
                for (volume, members) in part.tree.into_volumes() {
                    let members = members.into_iter().map(|member| match member {
                        Member::Leaf(leaf) => Member::Leaf(first_leaf + leaf),
                        Member::Volume(volume) => Member::Volume(first + volume),
                    });
                    volumes.push((volume, members.collect()));
                }
                Member::Volume(first)
            }
        };
        volumes[0].1.push(member);
    }
    Part { tree: Tree::new(volumes), leaves }
}
