//! Changing the sizes of drives: finding the labels during a change, and the order of the writes of
//! the change.
//!
//! A label lies at the end of the part of its drive that the volume uses. A drive that has grown
//! has its label at its old end, whose position the labels of the other members record. A drive
//! that is used only in part has a second label at its own end, which only points to the first
//! label. [`search`] handles both cases.
//!
//! [`plan`] is for a drained volume: everything is at home, so the engine's metadata can be written
//! anew. First all labels record that sizes are changing, also at the new ends, so from then on
//! every drive is found. Then the old places are erased, the engine's pages are written in their
//! new places, and the labels record the new sizes. After a cut at any point, a new plan from the
//! labels that are found ends with the same result.

use std::iter;

use super::page::Current;
use super::places::CopyPlace;
use super::{Format, Label, MemberLabel, tail_start};
use crate::layout::{LABEL_SECTORS, MemberId, Role};
use crate::units::{SectorRange, Sectors};

/// Returns the label of a drive of `size`, and the size at whose end the label lies. `read` returns
/// the label in the tail of a size. `hints` are sizes that missing members may have had; of several
/// labels, the last one written counts.
pub fn search(
    size: Sectors,
    hints: &[Sectors],
    mut read: impl FnMut(Sectors) -> Option<Current>,
) -> Option<(Sectors, Current)> {
    let Some(at_end) = read(size) else {
        let grown = hints.iter().filter(|&&hint| hint < size);
        let found = grown.filter_map(|&hint| Some((hint, read(hint).filter(|found| may_end_at(&found.label, hint))?)));
        return found.max_by_key(|(_, found)| (found.label.written, found.label.generation));
    };
    let own = at_end.label.own();
    if own.size >= size {
        return Some((size, at_end));
    }
    let newer = |label: &Label| {
        let same = label.volume == at_end.label.volume && label.own().uuid == own.uuid;
        same && label.own().size == own.size && label.generation >= at_end.label.generation
    };
    match read(own.size).filter(|inner| newer(&inner.label)) {
        Some(inner) => Some((own.size, inner)),
        None => Some((size, at_end)),
    }
}

/// Key of a setting of a drive that only labels of a volume that is being resized have: the size in
/// sectors that the volume is to use of the drive.
const GOAL: &str = "resize_to";
/// Key of a setting of a drive that only labels of a volume that is being resized have: the size of
/// the drive in sectors.
const WITHIN: &str = "resize_within";

/// Returns true if only labels of a volume that is being resized have the setting `key`.
pub fn is_of_resize(key: &str) -> bool {
    key.rsplit('.').next().is_some_and(|key| [GOAL, WITHIN].contains(&key))
}

fn setting(label: &Label, role: Role, wanted: &str) -> Option<Sectors> {
    label.drive_settings(role).find(|(key, _)| *key == wanted)?.1.parse().ok().map(Sectors)
}

/// Returns the sizes at whose ends a label of each member may lie. While a volume is resized, the
/// only label of a drive may lie at the end of its new size or at the end of the drive.
pub fn ends(label: &Label) -> impl Iterator<Item = Sectors> {
    label.members.iter().flat_map(|member| ends_of(label, member))
}

/// Returns true if `label` may lie at the end of `size` on its own drive.
pub fn may_end_at(label: &Label, size: Sectors) -> bool {
    own_ends(label).any(|end| end == size)
}

/// Returns the sizes at whose ends `label` may lie on its own drive.
pub fn own_ends(label: &Label) -> impl Iterator<Item = Sectors> {
    ends_of(label, label.own())
}

fn ends_of(label: &Label, member: &MemberLabel) -> impl Iterator<Item = Sectors> {
    let resized = [GOAL, WITHIN].into_iter().filter_map(|key| setting(label, member.role, key));
    iter::once(member.size).chain(resized.collect::<Vec<_>>())
}

/// Returns the size that an interrupted change was to give the drive with `role`; `None` if no
/// change was interrupted, or if it did not record the size. A part of the volume may have the
/// engine's pages of that size already.
pub fn goal(label: &Label, role: Role, is_interrupted: bool) -> Option<Sectors> {
    if !is_interrupted {
        return None;
    }
    if !label.resizing {
        // The newest label has the new sizes, and other labels lack them.
        return label.members.iter().find(|member| member.role == role).map(|member| member.size);
    }
    setting(label, role, GOAL)
}

/// A member whose size may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Size at whose end the member's label was found.
    pub found: Sectors,
    /// Number of the writing of that label.
    pub carried: u64,
    /// Size of the member's drive.
    pub drive: Sectors,
    /// Size of the part of the drive that the volume is to use.
    pub goal: Sectors,
}

/// A step of a change. A step must be stable before the next step begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write this label in the tail of its member, which lies at the end of this size.
    Label(Sectors, Box<Label>),
    /// Write zeroes.
    Erase(MemberId, SectorRange),
    /// Write the pages of an empty volume of the new sizes.
    Format,
}

/// The reason for which sizes cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the new size is too near the old size, so that the labels at both ends would overlap: expected a difference of \
     at least 64KiB"
)]
pub struct TooNearError;

/// Returns the steps from the volume that `label` describes to a volume of the new sizes. `now` is
/// in seconds since 1970, `writings` are random.
///
/// # Errors
/// Two sizes of one drive differ too little.
///
/// # Panics
/// Panics if there are not as many spans as members, or a goal is larger than its drive.
pub fn plan(label: &Label, spans: &[Span], now: u64, writings: [u64; 2]) -> Result<Vec<Step>, TooNearError> {
    assert_eq!(spans.len(), label.members.len(), "every member has a size");
    let members = || spans.iter().enumerate().map(|(at, span)| (MemberId(at as u16), *span));
    let [first, second] = writings;
    let mut changing =
        Label { resizing: true, ..label.next(now, first, members().map(|(id, span)| (id, span.carried))) };
    let lasting: Vec<_> = label.settings.iter().filter(|(key, _)| !is_of_resize(key)).cloned().collect();
    let passing = label.members.iter().zip(spans).flat_map(|(member, span)| {
        let of = |key: &str, size: Sectors| (format!("{}.{key}", member.role.name()), size.0.to_string());
        [of(GOAL, span.goal), of(WITHIN, span.drive)]
    });
    changing.settings = lasting.iter().cloned().chain(passing).collect();
    // The engine's first pages are written in the newest format.
    let format = Format::NEWEST;
    let mut changed = Label {
        resizing: false,
        format,
        settings: lasting,
        ..changing.next(now, second, members().map(|(id, _)| (id, first)))
    };
    for (member, span) in changed.members.iter_mut().zip(spans) {
        member.size = span.goal;
    }
    let mut steps = Vec::new();
    for (id, span) in members() {
        assert!(span.goal <= span.drive, "a volume uses no more of a drive than there is");
        let sizes = [span.found, span.drive, span.goal];
        let near = |one: Sectors, other: Sectors| one != other && one.0.abs_diff(other.0) < LABEL_SECTORS;
        if sizes.iter().any(|&one| sizes.iter().any(|&other| near(one, other))) {
            return Err(TooNearError);
        }
        steps.push(Step::Label(span.found, Box::new(changing.of(id))));
        if span.drive != span.found {
            steps.push(Step::Label(span.drive, Box::new(changing.of(id))));
        }
    }
    for (id, span) in members() {
        let mut inner = vec![span.found, span.goal];
        inner.dedup();
        let tails = inner.into_iter().filter(|&size| size != span.drive).filter_map(tail_start);
        steps.extend(tails.map(|tail| Step::Erase(id, SectorRange::new(tail.0, LABEL_SECTORS))));
        steps.extend(second_copies(&changed.of(id), span).map(|pages| Step::Erase(id, pages)));
    }
    steps.push(Step::Format);
    for (id, span) in members() {
        steps.push(Step::Label(span.goal, Box::new(changed.of(id))));
        if span.goal != span.drive {
            steps.push(Step::Label(span.drive, Box::new(changed.of(id))));
        }
    }
    Ok(steps)
}

/// Returns the places of second copies before the tails of a member, at each of its ends. The
/// second copies are of no use while first copies record a change of sizes, and wrong once the new
/// sizes hold.
fn second_copies(label: &Label, span: Span) -> impl Iterator<Item = SectorRange> {
    let place = label.second_copy(label.own().size);
    let mut ends = vec![span.found, span.drive, span.goal];
    ends.sort();
    ends.dedup();
    let pages = ends.into_iter().filter_map(move |size| place.pages(size));
    let before_tail = pages.filter(move |_| place != CopyPlace::InTail);
    before_tail.map(|[first, second]| SectorRange::new(first.start.0, first.len.0 + second.len.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::label::Guard;
    use crate::label::assembly::{Assembly, Found, Seat, assemble};
    use crate::label::page::{self, PAGE_BYTES, Seen};
    use crate::label::tests::label;
    use crate::units::Bytes;
    use proptest::prelude::*;

    /// Drives by their sizes, with their label pages by first sector, and the sizes for which each
    /// drive is formatted.
    #[derive(Clone)]
    struct Machine {
        first: Label,
        drives: Vec<(Sectors, BTreeMap<u64, [u8; PAGE_BYTES]>)>,
        formatted: Vec<Sectors>,
        /// The drive that the command names.
        named: usize,
    }

    fn mib(sizes: [u64; 2]) -> Vec<Sectors> {
        sizes.iter().map(|&mib| Bytes::from_mib(mib).sectors()).collect()
    }

    /// Returns the volume of `label()` with copies in each of the three kinds of places.
    fn kinds() -> impl Strategy<Value = Label> {
        let of = |second_tail, guard| Label { second_tail, guard, ..label() };
        let down = Some((MemberId(1), Guard::Down));
        prop_oneof![Just(of(false, None)), Just(of(true, None)), Just(of(true, down)), Just(of(false, down))]
    }

    fn read(size: Sectors, pages: &BTreeMap<u64, [u8; PAGE_BYTES]>) -> Option<Current> {
        let seen = pages.iter().filter_map(|(&sector, page)| {
            let (turn, place) = CopyPlace::at(size, sector)?;
            Some(Seen { turn, place, page })
        });
        page::read(size, seen).ok()
    }

    impl Machine {
        /// Makes the volume of `first`, 8 and 64 MiB large, on drives that have these sizes now.
        fn new(first: &Label, drives: [u64; 2]) -> Self {
            let drives = mib(drives).into_iter().map(|size| (size, BTreeMap::new())).collect();
            let mut machine = Self { first: first.clone(), drives, formatted: mib([8, 64]), named: 0 };
            for member in [0, 1].map(MemberId) {
                let label = first.of(member);
                machine.write(label.own().size, &label);
            }
            machine
        }

        /// Writes a label in the turn that follows the label found at this size, or in turn 0.
        fn write(&mut self, size: Sectors, label: &Label) {
            let pages = &mut self.drives[usize::from(label.index.0)].1;
            let turn = read(size, pages).map_or(0, |current| current.next_turn);
            for at in label.pages(size, turn) {
                pages.insert(at.start.0, page::encode(label).unwrap());
            }
        }

        /// Searches for labels, and again with the sizes that found labels give. If the label of
        /// the named drive is not found, searches all of this drive.
        fn find(&self) -> (Vec<Found>, Assembly) {
            let mut hints: Vec<Sectors> = Vec::new();
            for _ in 0..3 {
                let looks = self.drives.iter().enumerate().filter_map(|(at, (size, pages))| {
                    let (size, Current { label, .. }) = search(*size, &hints, |size| read(size, pages))?;
                    Some(Found { path: at.to_string(), size, label })
                });
                let found: Vec<Found> = looks.collect();
                if found.len() == self.drives.len() {
                    let assembly = assemble(&found, label().volume).expect("labels that fit");
                    return (found, assembly);
                }
                hints = found.iter().flat_map(|found| ends(&found.label).collect::<Vec<_>>()).collect();
                if found.iter().all(|found| found.path != self.named.to_string()) {
                    hints.extend(self.rummage());
                }
            }
            panic!("a drive is not found");
        }

        /// Returns the size at whose end the last label of the named drive lies.
        fn rummage(&self) -> Option<Sectors> {
            self.drives[self.named].1.iter().rev().find_map(|(&sector, page)| {
                let label = page::decode(page).ok()?;
                own_ends(&label).find(|&size| CopyPlace::at(size, sector).is_some())
            })
        }

        fn plan(&self, goals: &[Sectors], number: u64) -> Vec<Step> {
            let (found, assembly) = self.find();
            let spans: Vec<Span> = (0..2)
                .map(|at| {
                    let Seat::Taken(seat) = assembly.seats[at] else { panic!("{at} has no seat: {assembly:?}") };
                    let Found { size, label, .. } = &found[seat];
                    Span { found: *size, carried: label.writing, drive: self.drives[at].0, goal: goals[at] }
                })
                .collect();
            plan(&assembly.label, &spans, 3000, [number, number + 1]).unwrap()
        }

        fn take(&mut self, step: &Step, goals: &[Sectors]) {
            match step {
                Step::Label(size, label) => self.write(*size, label),
                Step::Erase(member, range) => {
                    let pages = &mut self.drives[usize::from(member.0)].1;
                    pages.retain(|&sector, _| !SectorRange::new(sector, 8).overlaps(*range));
                }
                Step::Format => self.formatted = goals.to_vec(),
            }
        }

        /// Checks that the volume can be served with these sizes.
        fn assert_whole(&self, sizes: &[Sectors]) {
            let (_, assembly) = self.find();
            assert!(!assembly.resizing && assembly.seats.iter().all(|seat| matches!(seat, Seat::Taken(_))));
            let said: Vec<Sectors> = assembly.label.members.iter().map(|member| member.size).collect();
            assert_eq!((said.as_slice(), self.formatted.as_slice()), (sizes, sizes));
        }

        /// Checks that a wipe of the last 64 KiB of a drive leaves its label where the engine
        /// leaves room for a copy. The check includes labels whose place only the other drive's
        /// label records.
        fn assert_wiped_is_found(&self, sizes: &[Sectors]) {
            for (at, &size) in sizes.iter().enumerate() {
                let mut wiped = self.clone();
                let (end, pages) = &mut wiped.drives[at];
                let last = end.0 - LABEL_SECTORS;
                pages.retain(|&sector, _| sector < last);
                let own = self.first.of(MemberId(at as u16));
                if *end != size || own.second_copy(own.own().size) != CopyPlace::InTail {
                    wiped.assert_whole(sizes);
                }
            }
        }
    }

    #[test]
    fn a_drive_that_has_grown_is_found_and_used_as_before() {
        Machine::new(&label(), [8, 100]).assert_whole(&mib([8, 64]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Cuts the change at every step, and the repeated change at every step again. All drives
        /// are found, and the volume is whole with the old sizes or records that it is being
        /// changed. The third attempt gives the volume the new sizes.
        #[test]
        fn wherever_it_is_cut_it_ends_with_the_new_sizes(
            drives in prop_oneof![Just([8u64, 64]), Just([16, 64]), Just([8, 128]), Just([20, 130])],
            goals in prop_oneof![Just([8u64, 64]), Just([6, 64]), Just([8, 50]), Just([5, 40]), Just([16, 128])],
            first in kinds(),
        ) {
            let goals: Vec<Sectors> =
                mib(goals).into_iter().zip(mib(drives)).map(|(goal, drive)| goal.min(drive)).collect();
            let fresh = Machine::new(&first, drives);
            let steps = fresh.plan(&goals, 100);
            for cut in 0..=steps.len() {
                let mut once = fresh.clone();
                steps[..cut].iter().for_each(|step| once.take(step, &goals));
                if !once.find().1.resizing {
                    let sizes = if cut == 0 { mib([8, 64]) } else { goals.clone() };
                    once.assert_whole(&sizes);
                }
                let again = once.plan(&goals, 200);
                for cut in 0..=again.len() {
                    let mut twice = once.clone();
                    again[..cut].iter().for_each(|step| twice.take(step, &goals));
                    let last = twice.plan(&goals, 300);
                    last.iter().for_each(|step| twice.take(step, &goals));
                    twice.assert_whole(&goals);
                    twice.assert_wiped_is_found(&goals);
                }
            }
        }
    }

    /// The new end may lie 64 KiB from the old end, so that the label copies before one end lie in
    /// the tail before the other end.
    #[test]
    fn sizes_64_kib_apart_end_whole_wherever_it_is_cut() {
        let of = |sectors: [u64; 2]| sectors.map(Sectors).to_vec();
        let (small, large) = (16_384, 16_384 + LABEL_SECTORS);
        for (drive, goal) in [(large, large), (large, small), (small, small - LABEL_SECTORS)] {
            for second_tail in [false, true] {
                let mut fresh = Machine::new(&Label { second_tail, ..label() }, [8, 64]);
                fresh.drives[0].0 = Sectors(drive);
                let goals = of([goal, 131_072]);
                let steps = fresh.plan(&goals, 100);
                for cut in 0..=steps.len() {
                    let mut once = fresh.clone();
                    steps[..cut].iter().for_each(|step| once.take(step, &goals));
                    once.plan(&goals, 200).iter().for_each(|step| once.take(step, &goals));
                    once.assert_whole(&goals);
                    once.assert_wiped_is_found(&goals);
                }
            }
        }
    }

    /// Regression: a drive that had grown twice counted for the volume that it had had first.
    #[test]
    fn newest_label_of_a_grown_drive_counts() {
        let label_of = |size, written| {
            let mut label = Label { written, ..label() };
            label.members[usize::from(label.index.0)].size = size;
            Current { label, next_turn: 0, by_second_copy: false }
        };
        let (first, second) = (Bytes::from_mib(8).sectors(), Bytes::from_mib(16).sectors());
        let found = |written: [u64; 2]| {
            let read = |size| match size {
                size if size == first => Some(label_of(first, written[0])),
                size if size == second => Some(label_of(second, written[1])),
                _ => None,
            };
            search(Bytes::from_mib(32).sectors(), &[first, second], read).map(|(size, _)| size)
        };
        assert_eq!((found([5, 9]), found([9, 5])), (Some(second), Some(first)));
    }

    /// Regression: a shrink that was cut short went on with the full size of the drive, although
    /// home had pages of the engine for the smaller size already.
    #[test]
    fn interrupted_change_knows_its_sizes() {
        let goals = mib([8, 50]);
        let fresh = Machine::new(&label(), [8, 64]);
        let steps = fresh.plan(&goals, 100);
        for cut in 1..steps.len() {
            let mut once = fresh.clone();
            steps[..cut].iter().for_each(|step| once.take(step, &goals));
            let (_, assembly) = once.find();
            let known = goal(&assembly.label, Role::Hdd, assembly.resizing);
            assert!(known == Some(goals[1]) || !assembly.resizing, "cut {cut}: {known:?}");
        }
        let mut done = fresh.clone();
        steps.iter().for_each(|step| done.take(step, &goals));
        assert_eq!(done.find().1.label.settings, label().settings);
    }

    /// Regression: a resize had erased the label at the former end, and was cut short. The drive
    /// grew again, and its label at the end of its intended size was not found.
    #[test]
    fn interrupted_change_is_found_after_the_drive_grew_again() {
        for (drives, goals) in [([8, 96], [8, 96]), ([8, 96], [8, 80]), ([16, 64], [12, 64])] {
            let goals = mib(goals);
            let fresh = Machine::new(&label(), drives);
            let steps = fresh.plan(&goals, 100);
            for (cut, at) in (0..=steps.len()).flat_map(|cut| [0, 1].map(|at| (cut, at))) {
                let mut once = fresh.clone();
                steps[..cut].iter().for_each(|step| once.take(step, &goals));
                // Only its own label tells the end of a drive that the volume uses in part.
                once.named = at;
                once.drives[at].0 = Sectors(once.drives[at].0.0 + Bytes::from_mib(32).sectors().0);
                once.plan(&goals, 200).iter().for_each(|step| once.take(step, &goals));
                once.assert_whole(&goals);
            }
        }
    }

    #[test]
    fn labels_never_lie_on_each_other() {
        let size = Bytes::from_mib(8).sectors();
        let near = Span { found: size, carried: 11, drive: Sectors(size.0 + 64), goal: Sectors(size.0 + 64) };
        let far = Span { found: Bytes::from_mib(64).sectors(), drive: Bytes::from_mib(64).sectors(), ..near };
        assert_eq!(plan(&label(), &[near, far], 0, [1, 2]), Err(TooNearError));
    }
}
