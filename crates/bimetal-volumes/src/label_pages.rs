//! Pages of the label of a member: read from the drive itself, and written again if they are bad.
//!
//! Each turn of a label has two copies. A bad page is written from the other copy of its turn. If
//! both copies are bad, the label that the member carries is written to both. The label itself does
//! not change, so the labels of the other members still know it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use bimetal_core::label::Label;
use bimetal_core::label::page::{self, PAGE_BYTES};
use bimetal_core::units::{SECTOR_BYTES, SectorRange, Sectors};
use bimetal_device::page::Aligned;
use rustix::fs::OFlags;

use crate::labels::write_page;

/// Turns of a label.
const TURNS: usize = 2;

/// See the [module](self).
#[derive(Debug)]
pub struct LabelPages {
    drive: File,
    /// The label as it is on the member.
    label: Label,
    size: Sectors,
    /// Turn of the newest label on the member.
    newest: usize,
    /// Writing of the newest label on the member.
    carried: u64,
}

impl LabelPages {
    /// Returns the pages of `label` on an open member of `size`. The member carries the writing
    /// `carried` in the turn `newest`. That is the writing of `label`, unless the member refused
    /// the last label.
    ///
    /// # Errors
    /// The drive cannot be opened once more.
    pub fn new(drive: &File, label: Label, size: Sectors, newest: usize, carried: u64) -> io::Result<Self> {
        Ok(Self { drive: reopened(drive)?, label, size, newest, carried })
    }

    /// Returns the number of bad pages. A page is bad if it cannot be read, has no label of the
    /// member, or has an older label in the turn of the newest.
    pub fn count_bad(&self) -> u64 {
        (0..TURNS).flat_map(|turn| self.read(turn)).filter(|(_, page)| page.is_none()).count() as u64
    }

    /// Writes each bad page again, through `drive`. A page that cannot be written stays bad.
    pub fn mend(&self, drive: &File) {
        for turn in 0..TURNS {
            let copies: Vec<_> = self.read(turn).collect();
            let sound = copies.iter().find_map(|(_, page)| *page);
            let own = || page::encode(&self.label).ok().filter(|_| self.label.writing == self.carried);
            let Some(content) = sound.or_else(own) else { continue };
            for (place, _) in copies.into_iter().filter(|(_, page)| page.is_none()) {
                // The next count tells if it was written.
                let _ = write_page(drive, place, &Aligned(content));
            }
        }
    }

    /// Reads the copies of a turn: the place of each, and its page if the page is sound.
    fn read(&self, turn: usize) -> impl Iterator<Item = (SectorRange, Option<[u8; PAGE_BYTES]>)> {
        let wanted = (turn == self.newest).then_some(self.carried);
        let is_sound = move |label: &Label| wanted.is_none_or(|writing| label.writing == writing);
        self.label.pages(self.size, turn).map(move |place| (place, sound(&self.drive, place, &self.label, is_sound)))
    }
}

/// Returns the page at `place` if it has a label of the member that `label` names, and the label is
/// `sound`.
fn sound(
    drive: &File,
    place: SectorRange,
    label: &Label,
    is_sound: impl Fn(&Label) -> bool,
) -> Option<[u8; PAGE_BYTES]> {
    let mut page = Box::new(Aligned([0; PAGE_BYTES]));
    drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES).ok()?;
    let found = page::decode(&page.0).ok()?;
    let is_own = (found.volume, found.own().uuid) == (label.volume, label.own().uuid);
    (is_own && is_sound(&found)).then_some(page.0)
}

/// Returns true if the first copy of `turn` has exactly the writing of `label`.
pub(crate) fn has_label(drive: &File, label: &Label, size: Sectors, turn: usize) -> bool {
    let place = label.pages(size, turn).next();
    let is_same = |found: &Label| found.writing == label.writing;
    place.is_some_and(|place| reopened(drive).is_ok_and(|drive| sound(&drive, place, label, is_same).is_some()))
}

/// Counts the bad pages of a member of `size` before its label is written for the first time in
/// this start. `label` is the volume's newest label, which the member may lack. The turn after
/// `newest` may be blank. `copies` is the number of copies of each turn.
pub(crate) fn count_bad_at_start(drive: &File, label: &Label, size: Sectors, newest: usize, copies: usize) -> u64 {
    // A drive that cannot be opened is refused later.
    let Ok(drive) = reopened(drive) else { return 0 };
    let is_blank = |place: SectorRange| {
        let mut page = Box::new(Aligned([0; PAGE_BYTES]));
        let read = drive.read_exact_at(&mut page.0, place.start.0 * SECTOR_BYTES);
        read.is_ok() && page.0 == [0; PAGE_BYTES]
    };
    let is_bad = |place: SectorRange, may_be_blank: bool| {
        sound(&drive, place, label, |_| true).is_none() && !(may_be_blank && is_blank(place))
    };
    let of_turn = |turn, may_be_blank| {
        label.pages(size, turn).take(copies).filter(|&place| is_bad(place, may_be_blank)).count() as u64
    };
    of_turn(newest, false) + of_turn(1 - newest, true)
}

/// Opens an open drive once more, so that reads come from the drive itself and not from the
/// system's memory, where the file system below can do so. The drive's path may be another file's
/// by now.
fn reopened(drive: &File) -> io::Result<File> {
    let direct = OFlags::DIRECT.bits() as i32;
    let path = format!("/proc/self/fd/{}", drive.as_raw_fd());
    File::options().read(true).custom_flags(direct).open(path).or_else(|_| drive.try_clone())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Instant;

    use bimetal_core::block::BlockSize;
    use bimetal_core::label::{Format, MemberLabel, Uuid};
    use bimetal_core::layout::{MemberId, Role};
    use bimetal_core::units::Bytes;

    use super::*;
    use crate::labels;

    fn label() -> Label {
        let member = |at: u8, role| MemberLabel {
            uuid: Uuid([at; 16]),
            role,
            size: Bytes::from_mib(1).sectors(),
            emulates: None,
            seen_in: 1,
            carried: 1,
            last_seen: 0,
        };
        Label {
            volume: Uuid([9; 16]),
            name: "box".to_owned(),
            index: MemberId(0),
            members: vec![member(1, Role::Hdd), member(2, Role::Ssd)],
            scheme: "bcache".to_owned(),
            settings: Vec::new(),
            block: BlockSize::default(),
            units: Vec::new(),
            guard: None,
            resizing: false,
            format: Format::NEWEST,
            second_tail: true,
            compatible: 0,
            generation: 3,
            writing: 1,
            written: 0,
            created_by: "test".to_owned(),
        }
    }

    /// A drive with labels in both turns, the newest in turn 1. Removed on drop.
    struct Labelled {
        path: PathBuf,
        drive: File,
        label: Label,
    }

    impl Labelled {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("bimetal-{name}-{}", std::process::id()));
            let drive = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            let label = label();
            drive.set_len(label.own().size.bytes().0).unwrap();
            let before = Label { generation: label.generation - 1, writing: label.writing + 7, ..label.clone() };
            let labelled = Self { path, drive, label };
            labelled.write(&before, 0);
            labelled.write(&labelled.label, 1);
            labelled
        }

        fn write(&self, label: &Label, turn: usize) {
            labels::write(&self.drive, self.size(), Path::new(&self.path), label, turn).unwrap();
        }

        fn size(&self) -> Sectors {
            self.label.own().size
        }

        fn pages(&self) -> LabelPages {
            LabelPages::new(&self.drive, self.label.clone(), self.size(), 1, self.label.writing).unwrap()
        }

        fn places(&self) -> Vec<SectorRange> {
            (0..TURNS).flat_map(|turn| self.label.pages(self.size(), turn)).collect()
        }

        fn put(&self, place: SectorRange, content: &[u8; PAGE_BYTES]) {
            self.drive.write_all_at(content, place.start.0 * SECTOR_BYTES).unwrap();
            self.drive.sync_all().unwrap();
        }

        fn read(&self, place: SectorRange) -> Label {
            let mut page = [0; PAGE_BYTES];
            self.drive.read_exact_at(&mut page, place.start.0 * SECTOR_BYTES).unwrap();
            page::decode(&page).unwrap()
        }
    }

    impl Drop for Labelled {
        fn drop(&mut self) {
            std::fs::remove_file(&self.path).unwrap();
        }
    }

    /// Returns the contents of a bad page, by name.
    fn contents(own: &Label) -> Vec<(&'static str, [u8; PAGE_BYTES])> {
        let mut torn = page::encode(own).unwrap();
        torn[2000] ^= 1;
        vec![
            ("of another member", page::encode(&own.of(MemberId(1))).unwrap()),
            ("of another volume", page::encode(&Label { volume: Uuid([8; 16]), ..own.clone() }).unwrap()),
            ("torn", torn),
            ("blank", [0; PAGE_BYTES]),
        ]
    }

    /// Regression: on a busy machine, the time of the search for the label of a grown drive was
    /// over before its first part was read. The volume was not found.
    #[test]
    fn grown_drive_is_searched_also_when_the_time_is_over() {
        for (mib, found) in [(48, true), (80, false)] {
            let labelled = Labelled::new("late");
            let end = labelled.size().bytes().0;
            labelled.drive.write_all_at(&vec![1; mib << 20], end).unwrap();
            let size = labelled.size() + Bytes::from_mib(mib as u64).sectors();
            let (within, at_least) = (Bytes::from_gib(8), Bytes::from_mib(64));
            let hint = labels::rummage(&labelled.drive, size, within, Some(Instant::now()), at_least);
            assert_eq!(hint, found.then_some(labelled.size()), "{mib} MiB");
        }
    }

    #[test]
    fn bad_page_is_written_from_its_copy() {
        let labelled = Labelled::new("label-copy");
        let places = labelled.places();
        let before: Vec<Label> = places.iter().map(|&place| labelled.read(place)).collect();
        assert_eq!((places.len(), labelled.pages().count_bad()), (4, 0));
        for &place in &places {
            for (name, content) in contents(&labelled.label) {
                labelled.put(place, &content);
                assert_eq!(labelled.pages().count_bad(), 1, "{name}");
                labelled.pages().mend(&labelled.drive);
                assert_eq!(labelled.pages().count_bad(), 0, "{name}");
                assert_eq!(places.iter().map(|&place| labelled.read(place)).collect::<Vec<_>>(), before, "{name}");
            }
        }
    }

    #[test]
    fn turn_without_a_sound_copy_gets_the_newest_label() {
        let labelled = Labelled::new("label-turn");
        let places = labelled.places();
        for lost in [&places[..2], &places[2..], &places[..]] {
            lost.iter().for_each(|&place| labelled.put(place, &[0xa5; PAGE_BYTES]));
            assert_eq!(labelled.pages().count_bad(), lost.len() as u64);
            labelled.pages().mend(&labelled.drive);
            assert_eq!(labelled.pages().count_bad(), 0);
            lost.iter().for_each(|&place| assert_eq!(labelled.read(place), labelled.label));
        }
    }

    /// A drive may lose a write that it has answered. Then the copy has an older label.
    #[test]
    fn older_label_in_the_newest_turn_is_bad() {
        let labelled = Labelled::new("label-older");
        let places = labelled.places();
        let older = labelled.read(places[0]);
        labelled.put(places[3], &page::encode(&older).unwrap());
        assert_eq!(labelled.pages().count_bad(), 1);
        labelled.pages().mend(&labelled.drive);
        assert_eq!(labelled.read(places[3]), labelled.label);
    }

    /// A member that refused the last label must not get it from a scrub: the guarded drive gets
    /// each label first.
    #[test]
    fn label_that_the_member_lacks_is_not_written() {
        let labelled = Labelled::new("label-lacks");
        let next = Label { generation: labelled.label.generation + 1, writing: 99, ..labelled.label.clone() };
        let pages = || LabelPages::new(&labelled.drive, next.clone(), labelled.size(), 1, labelled.label.writing);
        assert_eq!(pages().unwrap().count_bad(), 0);
        let places = labelled.places();
        places[2..].iter().for_each(|&place| labelled.put(place, &[0; PAGE_BYTES]));
        pages().unwrap().mend(&labelled.drive);
        assert_eq!(pages().unwrap().count_bad(), 2);
    }

    /// A drive may store a page and fail after it. Then the drive carries the new writing.
    #[test]
    fn label_that_was_stored_is_found() {
        let labelled = Labelled::new("label-stored");
        let next = Label { generation: labelled.label.generation + 1, writing: 99, ..labelled.label.clone() };
        let has = |label: &Label, turn| has_label(&labelled.drive, label, labelled.size(), turn);
        assert!(!has(&next, 0) && !has(&labelled.label, 0) && has(&labelled.label, 1));
        labelled.put(labelled.places()[0], &page::encode(&next).unwrap());
        assert!(has(&next, 0));
    }

    #[test]
    fn start_permits_a_blank_turn_after_the_newest() {
        let labelled = Labelled::new("label-start");
        let count = |newest| count_bad_at_start(&labelled.drive, &labelled.label, labelled.size(), newest, 2);
        assert_eq!(count(1), 0);
        for (name, content) in contents(&labelled.label) {
            let places = labelled.places();
            labelled.put(places[0], &content);
            assert_eq!(count(0), 1, "{name}");
            assert_eq!(count(1), u64::from(name != "blank"), "{name}");
            labelled.pages().mend(&labelled.drive);
        }
        let beyond = count_bad_at_start(&labelled.drive, &labelled.label, Sectors(labelled.size().0 * 2), 1, 2);
        assert_eq!(beyond, 4, "pages that cannot be read");
    }
}
