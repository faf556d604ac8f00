//! The rules by which labels that were found make a volume: which drive is which member, which
//! members are missing, and when the volume must not be used.
//!
//! The label that knows all other labels decides. Each label records for every member the writing
//! for which it was present, and the writing that it carried before. So the deciding label
//! recognises a drive that carries either of these two writings.
//!
//! - A drive that the deciding label does not name was replaced.
//! - A drive that was absent when the deciding label was written is *behind*, and counts as
//!   missing.
//! - A drive whose label is older only because the writing was cut short is present.
//! - Two drives with the same label (a clone) are refused, because any use would be wrong on one of
//!   the two drives. Two halves of a volume that were each used without the other half are refused,
//!   too, and so is a drive whose size changed.

use super::{Label, MemberLabel, Uuid, member_name};
use crate::layout::MemberId;
use crate::units::{Bytes, Sectors};

/// A label, with the drive that carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The drive, under the path that the user knows.
    pub path: String,
    /// Size at whose end the label lies.
    pub size: Sectors,
    /// The label.
    pub label: Label,
}

/// The state of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// The label with this index is the member's.
    Taken(usize),
    /// The label with this index is the member's, but the volume was used without it: its content
    /// is old.
    Behind(usize),
    /// No drive has the member's label.
    Empty,
}

/// A volume as its labels describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    /// The newest label, which describes the volume.
    pub label: Label,
    /// The state of each member, in order.
    pub seats: Vec<Seat>,
    /// Set if a change of sizes was cut short: nothing except the change of sizes can go on.
    pub resizing: bool,
    /// Drives that were members once and have been replaced, as indexes of the labels found.
    pub former: Vec<usize>,
}

/// A missing member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Absent {
    /// The member's name for users: `ssd`, `hdd1`.
    pub member: String,
    /// The member's UUID.
    pub uuid: Uuid,
    /// The member's size.
    pub size: Bytes,
    /// Time at which the drive was last present, in seconds since 1970.
    pub last_seen: u64,
    /// Path of the drive with the missing member's label, if that drive is present but outdated.
    pub behind: Option<String>,
}

/// Reasons for which labels make no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssemblyError {
    /// No label is of this volume.
    #[error("no drive with a label of volume '{name}' was found{}", others(.known))]
    NotFound {
        /// The name that was requested.
        name: String,
        /// Names of the volumes whose labels were found.
        known: Vec<String>,
    },
    /// Several volumes have the name.
    #[error(
        "{} volumes are named '{name}' ({}): name the path of one of the volume's drives instead",
        .volumes.len(), described(.volumes)
    )]
    SameName {
        /// The name.
        name: String,
        /// UUID of each volume with this name, with the path of a drive of the volume.
        volumes: Vec<(Uuid, String)>,
    },
    /// Two drives carry the same member's label.
    #[error(
        "{first} and {second} both carry the label of volume '{name}', member {member} ({uuid}): one is a copy of the \
         other, and using both would overwrite data. Disconnect the copy"
    )]
    Clone {
        /// The volume.
        name: String,
        /// The member.
        member: String,
        /// UUID of the member.
        uuid: Uuid,
        /// A drive.
        first: String,
        /// Path of the other drive.
        second: String,
    },
    /// Two drives of a volume were each used without the other drive.
    #[error(
        "volume '{name}': {first} and {second} do not belong together any more: each was used without the other, or \
         one is an older copy. Disconnect the drive whose data you do not want, and attach it as a new drive later"
    )]
    Split {
        /// The volume.
        name: String,
        /// A drive.
        first: String,
        /// Path of the other drive.
        second: String,
    },
    /// The size of a drive has changed since the label was written.
    #[error(
        "{path} was labelled as member {member} of volume '{name}' with {was}, and has {is} now, so its data lies \
         elsewhere: restore its former size"
    )]
    Size {
        /// The volume.
        name: String,
        /// The member.
        member: String,
        /// The drive.
        path: String,
        /// Size of the drive when it was labelled.
        was: Bytes,
        /// Present size of the drive.
        is: Bytes,
    },
}

fn others(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; drives of other volumes were found: {}", names.join(", ")) }
}

fn described(volumes: &[(Uuid, String)]) -> String {
    let each: Vec<_> = volumes.iter().map(|(uuid, path)| format!("{uuid} with {path}")).collect();
    each.join(", ")
}

/// Returns the volume named `name`.
///
/// # Errors
/// No volume or several volumes have that name.
pub fn named(found: &[Found], name: &str) -> Result<Uuid, AssemblyError> {
    let mut volumes: Vec<(Uuid, String)> = Vec::new();
    for drive in found.iter().filter(|drive| drive.label.name == name) {
        if volumes.iter().all(|(uuid, _)| *uuid != drive.label.volume) {
            volumes.push((drive.label.volume, drive.path.clone()));
        }
    }
    match volumes.as_slice() {
        [(uuid, _)] => Ok(*uuid),
        [] => {
            let mut known: Vec<String> = found.iter().map(|drive| drive.label.name.clone()).collect();
            known.sort();
            known.dedup();
            Err(AssemblyError::NotFound { name: name.to_owned(), known })
        }
        _ => Err(AssemblyError::SameName { name: name.to_owned(), volumes }),
    }
}

/// Assembles the volume `volume` from its labels among `found`, of which there must be at least
/// one; labels of other volumes are skipped.
///
/// # Errors
/// There is a clone, two halves were used separately, a drive's size has changed, or there is no
/// label of the volume.
pub fn assemble(found: &[Found], volume: Uuid) -> Result<Assembly, AssemblyError> {
    let of_volume = || found.iter().enumerate().filter(|(_, drive)| drive.label.volume == volume);
    refuse_clones(of_volume().map(|(_, drive)| drive))?;
    let Some((_, leader)) = of_volume().max_by_key(|(_, drive)| drive.label.generation) else {
        return Err(AssemblyError::NotFound { name: volume.to_string(), known: Vec::new() });
    };
    let mut assembly = Assembly {
        label: leader.label.clone(),
        seats: vec![Seat::Empty; leader.label.members.len()],
        resizing: leader.label.resizing,
        former: vec![],
    };
    for (at, drive) in of_volume() {
        let uuid = drive.label.own().uuid;
        let Some(seat) = leader.label.members.iter().position(|member| member.uuid == uuid) else {
            assembly.former.push(at);
            continue;
        };
        let member = &leader.label.members[seat];
        let was_there = leader.label.was_there(MemberId(seat as u16));
        // The content of a drive that is behind does not matter, so its size may differ by now.
        if was_there && !(leader.label.resizing || drive.label.resizing) {
            refuse_size(drive, member)?;
        }
        if ![member.seen_in, member.carried].contains(&drive.label.writing) {
            let (first, second) = (leader.path.clone(), drive.path.clone());
            return Err(AssemblyError::Split { name: leader.label.name.clone(), first, second });
        }
        assembly.seats[seat] = if was_there { Seat::Taken(at) } else { Seat::Behind(at) };
        assembly.resizing |= drive.label.resizing && was_there;
    }
    Ok(assembly)
}

impl Assembly {
    /// Returns the next generation of the label, written at `now` (seconds since 1970) with all
    /// members that are present. `writing` is a random number.
    pub fn next_label(&self, found: &[Found], now: u64, writing: u64) -> Label {
        let there = self.seats.iter().enumerate().filter_map(|(member, seat)| match *seat {
            Seat::Taken(at) => Some((MemberId(member as u16), found[at].label.writing)),
            Seat::Behind(_) | Seat::Empty => None,
        });
        self.label.next(now, writing, there)
    }

    /// Returns the members that are missing or behind.
    pub fn absent(&self, found: &[Found]) -> Vec<Absent> {
        let members = self.label.members.iter().zip(&self.seats).enumerate();
        let absent = members.filter_map(|(at, (member, seat))| {
            let behind = match *seat {
                Seat::Taken(_) => return None,
                Seat::Behind(at) => Some(found[at].path.clone()),
                Seat::Empty => None,
            };
            Some(Absent {
                member: member_name(&self.label.members, MemberId(at as u16)),
                uuid: member.uuid,
                size: member.size.bytes(),
                last_seen: member.last_seen,
                behind,
            })
        });
        absent.collect()
    }
}

fn refuse_clones<'a>(drives: impl Iterator<Item = &'a Found>) -> Result<(), AssemblyError> {
    let mut seen: Vec<&Found> = Vec::new();
    for drive in drives {
        let uuid = drive.label.own().uuid;
        if let Some(first) = seen.iter().find(|other| other.label.own().uuid == uuid) {
            return Err(AssemblyError::Clone {
                name: drive.label.name.clone(),
                member: drive.label.member_name(drive.label.index),
                uuid,
                first: first.path.clone(),
                second: drive.path.clone(),
            });
        }
        seen.push(drive);
    }
    Ok(())
}

fn refuse_size(drive: &Found, member: &MemberLabel) -> Result<(), AssemblyError> {
    if drive.size == member.size {
        return Ok(());
    }
    Err(AssemblyError::Size {
        name: drive.label.name.clone(),
        member: drive.label.member_name(drive.label.index),
        path: drive.path.clone(),
        was: member.size.bytes(),
        is: drive.size.bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::tests::label;
    use crate::units::Bytes;
    use proptest::prelude::*;

    fn found(path: &str, label: &Label, member: u16) -> Found {
        let label = label.of(MemberId(member));
        Found { path: path.to_owned(), size: label.own().size, label }
    }

    /// Returns the next label, for a writing at which these members were present, all with the
    /// writing of `label` before.
    fn next(label: &Label, writing: u64, there: &[u16]) -> Label {
        label.next(2000, writing, there.iter().map(|&member| (MemberId(member), label.writing)))
    }

    fn volume(found: &[Found]) -> Result<Assembly, AssemblyError> {
        assemble(found, label().volume)
    }

    #[test]
    fn members_take_their_seats_in_whatever_order_they_were_found() {
        let label = label();
        let mut other = label.clone();
        other.volume = Uuid([7; 16]);
        let drives = [found("c", &other, 0), found("hdd", &label, 1), found("ssd", &label, 0)];
        let assembly = volume(&drives).unwrap();
        assert_eq!(assembly.seats, [Seat::Taken(2), Seat::Taken(1)]);
        assert_eq!(assembly.absent(&drives), []);
    }

    #[test]
    fn a_missing_member_is_named_with_when_it_was_last_seen() {
        let drives = [found("hdd", &next(&label(), 12, &[1]), 1)];
        let assembly = volume(&drives).unwrap();
        assert_eq!(assembly.seats, [Seat::Empty, Seat::Taken(0)]);
        let [absent] = &assembly.absent(&drives)[..] else { panic!("one is absent") };
        assert_eq!((absent.member.as_str(), absent.last_seen, &absent.behind), ("ssd", 1000, &None));
    }

    #[test]
    fn a_drive_without_which_the_volume_went_on_is_behind() {
        let old = label();
        let drives = [found("ssd", &old, 0), found("hdd", &next(&old, 12, &[1]), 1)];
        let assembly = volume(&drives).unwrap();
        assert_eq!(assembly.seats, [Seat::Behind(0), Seat::Taken(1)]);
        assert_eq!(assembly.absent(&drives)[0].behind.as_deref(), Some("ssd"));
        // A drive of another size may take its place.
        let mut label = next(&old, 12, &[1]);
        label.members[0].size = Bytes::from_mib(4).sectors();
        let drives = [drives[0].clone(), found("hdd", &label, 1)];
        assert_eq!(volume(&drives).unwrap().seats, [Seat::Behind(0), Seat::Taken(1)]);
    }

    #[test]
    fn a_label_whose_writing_was_cut_short_keeps_its_seat() {
        let old = label();
        let drives = [found("ssd", &old, 0), found("hdd", &next(&old, 12, &[0, 1]), 1)];
        let assembly = volume(&drives).unwrap();
        assert_eq!(assembly.seats, [Seat::Taken(0), Seat::Taken(1)]);
        // The writing is cut short again, at the same place.
        let drives = [drives[0].clone(), found("hdd", &assembly.next_label(&drives, 3000, 13), 1)];
        assert_eq!(volume(&drives).unwrap().seats, [Seat::Taken(0), Seat::Taken(1)]);
    }

    #[test]
    fn two_halves_that_went_on_apart_are_refused() {
        let old = label();
        let mut apart = old.clone();
        for writing in 20..23 {
            apart = next(&apart, writing, &[0]);
            let drives = [found("ssd", &apart, 0), found("hdd", &next(&old, 12, &[1]), 1)];
            assert!(matches!(volume(&drives), Err(AssemblyError::Split { .. })), "{writing}");
        }
    }

    #[test]
    fn a_clone_is_refused_and_both_drives_are_named() {
        let label = label();
        let drives = [found("hdd", &label, 1), found("ssd", &label, 0), found("copy", &next(&label, 5, &[1]), 1)];
        let message = volume(&drives).unwrap_err().to_string();
        assert!(message.starts_with("hdd and copy both carry the label of volume 'mail', member hdd"), "{message}");
    }

    #[test]
    fn a_drive_that_changed_its_size_is_refused() {
        let mut drive = found("hdd", &label(), 1);
        drive.size = Bytes::from_mib(63).sectors();
        let message = volume(&[drive]).unwrap_err().to_string();
        assert!(message.contains("with 64MiB, and has 63MiB now"), "{message}");
    }

    #[test]
    fn a_drive_that_was_replaced_belongs_no_more() {
        let old = label();
        let mut new = next(&old, 12, &[0, 1]);
        new.members[0].uuid = Uuid([5; 16]);
        let drives = [found("old", &old, 0), found("new", &new, 0), found("hdd", &new, 1)];
        let assembly = volume(&drives).unwrap();
        assert_eq!((assembly.seats, assembly.former), (vec![Seat::Taken(1), Seat::Taken(2)], vec![0]));
    }

    /// A name that several volumes have, or no volume, is refused. The message lists the volumes
    /// that were found.
    #[test]
    fn ambiguous_or_unknown_name_is_refused_with_candidates() {
        let mut other = label();
        other.volume = Uuid([7; 16]);
        let drives = [found("a", &label(), 0), found("b", &other, 0), found("c", &label(), 1)];
        let message = named(&drives, "mail").unwrap_err().to_string();
        assert!(message.contains("2 volumes are named 'mail'") && message.contains("with a"), "{message}");
        let message = named(&drives, "male").unwrap_err().to_string();
        assert_eq!(
            message,
            "no drive with a label of volume 'male' was found; drives of other volumes were found: mail"
        );
        assert_eq!(named(&drives[..1], "mail"), Ok(label().volume));
    }

    /// A drive of the property below: its label, and the last start whose requests it served.
    type Drive = (Found, usize);

    /// Starts with the drives that are in `there`, writes the labels of the first `written` drives
    /// in their roles, and serves if all labels were written.
    fn start(drives: &mut [Drive; 3], there: &[usize], written: usize, number: usize) -> Result<(), TestCaseError> {
        let present: Vec<Found> = there.iter().map(|&member| drives[member].0.clone()).collect();
        let newest = there.iter().map(|&member| drives[member].1).max().unwrap_or(0);
        let assembly = match volume(&present) {
            Ok(assembly) => assembly,
            Err(AssemblyError::Split { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let mut taken = Vec::new();
        for (member, seat) in assembly.seats.iter().enumerate() {
            match seat {
                Seat::Taken(_) => {
                    prop_assert_eq!(drives[member].1, newest);
                    taken.push(member);
                }
                // A writing that was cut short may have had no effect, and nothing tells if it had,
                // so an absent drive is behind.
                Seat::Behind(_) => {}
                Seat::Empty => prop_assert!(!there.contains(&member)),
            }
        }
        let next = assembly.next_label(&present, 0, 100 + number as u64);
        let all = written >= taken.len();
        for (at, &member) in taken.iter().enumerate() {
            if at < written {
                drives[member].0.label = next.of(MemberId(member as u16));
            }
            if all {
                drives[member].1 = number;
            }
        }
        Ok(())
    }

    proptest! {
        /// Takes any drives at each start, and cuts each writing of labels anywhere. A drive counts
        /// as a member only if it missed no request that any present drive has served.
        #[test]
        fn a_seat_is_taken_only_by_a_drive_that_missed_nothing(
            starts in proptest::collection::vec((1usize..8, 0usize..4), 1..12),
        ) {
            let mut first = label();
            first.members.push(MemberLabel { uuid: Uuid([3; 16]), ..first.members[1].clone() });
            let mut drives = [0, 1, 2].map(|member| (found(&member.to_string(), &first, member), 0));
            for (number, &(mask, written)) in starts.iter().enumerate() {
                let there: Vec<usize> = (0..3).filter(|member| mask >> member & 1 == 1).collect();
                start(&mut drives, &there, written, number + 1)?;
            }
        }
    }
}
