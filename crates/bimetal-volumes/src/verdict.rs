//! Verdict about a drive that is to become a member, from its existing content: kept, erased with
//! the user's permission, or refused.
//!
//! A file system on a drive that is to be home is kept ("adopted") under two conditions. The file
//! system verifiably ends before the part that the volume needs at the drive's end, and the drive
//! has no other content. All other content is in the way: without `--force` the drive is refused,
//! with the kind of content and the remedy. This module does no I/O.

use std::path::{Path, PathBuf};

use bimetal_core::units::Bytes;

use bimetal_device::signature::{Content, Signature};

/// Fate of a drive's existing content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The drive has no known content.
    Empty,
    /// A file system is kept as the initial content of the volume.
    Adopted {
        /// Name of the file system.
        name: &'static str,
        /// End of the file system.
        end: Bytes,
    },
    /// The content is erased, because the user allowed it.
    Erased(Vec<&'static str>),
}

/// Purpose of a drive, as far as it concerns existing content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Home of every address, each at its own position, from byte 0 to this end.
    Home(Bytes),
    /// Home of a part of the addresses.
    PartOfHome,
    /// Cache or log: the volume writes to the whole drive.
    Slots,
}

/// Reasons for which a drive does not become a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The drive belongs to a volume.
    #[error(
        "{}: is labelled as a drive of {volume} already. --force makes it a drive of this volume, and destroys \
         {volume}",
        path.display()
    )]
    Labelled {
        /// Path of the drive.
        path: PathBuf,
        /// Name of the volume.
        volume: String,
    },
    /// The drive has a partition table.
    #[error(
        "{}: carries {name} partitions, and the volume would {harm}. Use one of the partitions (lsblk shows them); \
         --force erases the table and all partitions", path.display()
    )]
    Partitions {
        /// Path of the drive.
        path: PathBuf,
        /// Kind of the table.
        name: &'static str,
        /// Harm that the volume would do to the table.
        harm: &'static str,
    },
    /// A table of partitions reaches too far on a drive of the volume.
    #[error(
        "{0}: carries {name} partitions up to byte {end}, and the volume ends at byte {limit}. Shrink the last partition \
         below that byte, and let the table end there, on a loop device of that size: losetup --find --show --sizelimit \
         {limit} {0}", path.display()
    )]
    TableTooLong {
        /// Path of the drive.
        path: PathBuf,
        /// Kind of the table.
        name: &'static str,
        /// End of the drive's last partition, in bytes.
        end: u64,
        /// End of the volume's home, in bytes.
        limit: u64,
    },
    /// A file system reaches too far.
    #[error("{}: carries {name} of {end} bytes, and the volume needs the space after byte {limit}. {remedy}", path.display())]
    TooLong {
        /// Path of the drive.
        path: PathBuf,
        /// Kind of the file system.
        name: &'static str,
        /// End of the file system, in bytes.
        end: u64,
        /// Maximum end of the file system, in bytes.
        limit: u64,
        /// Commands that help.
        remedy: String,
    },
    /// Content that cannot stay on the drive would be harmed.
    #[error("{}: carries {name}, {why}. --force erases it", path.display())]
    InTheWay {
        /// Path of the drive.
        path: PathBuf,
        /// Kind of the content.
        name: &'static str,
        /// Reason for which the content cannot stay.
        why: &'static str,
    },
}

/// Drive that is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drive<'a> {
    /// Path as the user gave it.
    pub path: &'a Path,
    /// Set for a regular file, which can be made larger.
    pub is_file: bool,
    /// Size of the drive.
    pub size: Bytes,
    /// Set if the drive belongs to the volume already and has a label at its end.
    pub is_member: bool,
    /// Purpose of the drive.
    pub purpose: Purpose,
}

/// Judges the content `signatures` of `drive`.
///
/// # Errors
/// Fails if a signature is in the way, and `force` is not set.
pub fn judge(drive: &Drive<'_>, signatures: &[Signature], force: bool) -> Result<Verdict, Refusal> {
    let &Drive { path, purpose, .. } = drive;
    let is_label = |signature: &&Signature| matches!(signature.content, Content::Label(_));
    if force && !drive.is_member && signatures.iter().any(|signature| is_label(&signature)) {
        // The label goes, and a file system beside it stays if it can.
        let others: Vec<Signature> = signatures.iter().filter(|signature| !is_label(signature)).cloned().collect();
        if let Ok(kept @ Verdict::Adopted { .. }) = judge(drive, &others, false) {
            return Ok(kept);
        }
    }
    let refusal = match signatures {
        [] => return Ok(Verdict::Empty),
        [Signature { name, content: Content::Partitions { end: Some(end) } }] if drive.is_member => match purpose {
            Purpose::Home(limit) if *end <= limit => return Ok(Verdict::Adopted { name, end: *end }),
            Purpose::Home(limit) => Refusal::TableTooLong { path: path.to_owned(), name, end: end.0, limit: limit.0 },
            Purpose::PartOfHome | Purpose::Slots => in_the_way(path, &signatures[0], purpose),
        },
        [Signature { name, content: Content::FileSystem { end: Some(end) } }] => match purpose {
            Purpose::Home(limit) if *end <= limit => return Ok(Verdict::Adopted { name, end: *end }),
            Purpose::Home(limit) => too_long(drive, name, *end, limit),
            Purpose::PartOfHome | Purpose::Slots => in_the_way(path, &signatures[0], purpose),
        },
        [.., last] => {
            // A label is the most specific, then a partition table, then the signature found last.
            let label = signatures.iter().find(|signature| matches!(signature.content, Content::Label(_)));
            let table = signatures.iter().find(|signature| matches!(signature.content, Content::Partitions { .. }));
            // --force is not a remedy for a drive of the volume.
            let alone = |signature| judge(drive, std::slice::from_ref(signature), false).err();
            let of_member = if drive.is_member { signatures.iter().find_map(alone) } else { None };
            of_member.unwrap_or_else(|| in_the_way(path, label.or(table).unwrap_or(last), purpose))
        }
    };
    if !force {
        return Err(refusal);
    }
    Ok(Verdict::Erased(signatures.iter().map(|signature| signature.name).collect()))
}

fn in_the_way(path: &Path, signature: &Signature, purpose: Purpose) -> Refusal {
    let path = path.to_owned();
    let name = signature.name;
    match &signature.content {
        Content::Label(volume) => {
            let named = volume.as_ref().map(|name| format!("volume '{name}'"));
            Refusal::Labelled { path, volume: named.unwrap_or_else(|| "a volume that cannot be read".to_owned()) }
        }
        Content::Partitions { .. } => {
            let harm = match purpose {
                Purpose::Slots => "overwrite them",
                Purpose::Home(_) | Purpose::PartOfHome => {
                    "overwrite the end of the drive, where a table or a partition may lie"
                }
            };
            Refusal::Partitions { path, name, harm }
        }
        content => {
            let why = match (content, purpose) {
                (_, Purpose::Slots) => "and the volume would overwrite it",
                (_, Purpose::PartOfHome) => {
                    "and it cannot stay, because this scheme spreads the addresses over several drives"
                }
                (Content::FileSystem { .. }, _) => "whose end is uncertain, so the volume may damage it",
                _ => "which is not a file system that can stay",
            };
            Refusal::InTheWay { path, name, why }
        }
    }
}

fn too_long(drive: &Drive<'_>, name: &'static str, end: Bytes, limit: Bytes) -> Refusal {
    let path = drive.path.display();
    let (kib, missing) = (limit.0 / 4096 * 4, end.0.saturating_sub(limit.0).next_multiple_of(4096));
    let remedy = match name {
        // The tools would cut off the end of the file, where the label is.
        _ if drive.is_file && drive.is_member && name.starts_with("ext") => format!(
            "Shrink it first, through a loop device: loop=$(losetup --find --show {path}) && e2fsck -f $loop && resize2fs $loop \
             {kib}K && losetup -d $loop (resize2fs on the file itself would cut off its end, where the label of the volume lies)"
        ),
        // The tools would cut the file off after the file system.
        _ if drive.is_file && name.starts_with("ext") => {
            let size = drive.size.0;
            format!(
                "Two ways. Shrink it first: e2fsck -f {path} && resize2fs {path} {kib}K && truncate -s {size} {path} \
                 (resize2fs shortens the file, and truncate restores its size). Make the file larger first: truncate \
                 -s +{missing} {path}"
            )
        }
        _ if drive.is_file && !drive.is_member => format!("Make the file larger first: truncate -s +{missing} {path}"),
        "xfs" => format!(
            "xfs cannot be shrunk: enlarge its partition or volume by at least {missing} bytes, or copy the data away"
        ),
        "btrfs" => format!("Shrink it first: mount {path} /mnt && btrfs filesystem resize {kib}K /mnt && umount /mnt"),
        _ => format!("Shrink it first: e2fsck -f {path} && resize2fs {path} {kib}K"),
    };
    Refusal::TooLong { path: drive.path.to_owned(), name, end: end.0, limit: limit.0, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &'static str, content: Content) -> Signature {
        Signature { name, content }
    }

    fn ext4(end_mib: u64) -> Signature {
        found("ext4", Content::FileSystem { end: Some(Bytes::from_mib(end_mib)) })
    }

    const HOME: Purpose = Purpose::Home(Bytes::from_mib(99));

    fn drive(path: &str, is_file: bool, purpose: Purpose) -> Drive<'_> {
        Drive { path: Path::new(path), is_file, size: Bytes::from_mib(100), is_member: false, purpose }
    }

    fn verdict(signatures: &[Signature], purpose: Purpose, force: bool) -> Result<Verdict, String> {
        let drive = drive("/dev/sdx1", false, purpose);
        judge(&drive, signatures, force).map_err(|refusal| refusal.to_string())
    }

    /// A file system that ends early enough stays on a home drive. Even `--force` does not erase
    /// such a file system.
    #[test]
    fn file_system_that_ends_early_is_adopted_even_with_force() {
        for force in [false, true] {
            let kept = Ok(Verdict::Adopted { name: "ext4", end: Bytes::from_mib(99) });
            assert_eq!(verdict(&[ext4(99)], HOME, force), kept);
        }
    }

    /// Partitions on a drive of a volume are content of the volume. The partitions stay if they end
    /// before the part that the volume needs at the drive's end.
    #[test]
    fn partitions_of_a_member_stay_if_they_end_in_time() {
        let judged = |end, is_member| {
            let drive = Drive {
                path: Path::new("/dev/h"),
                is_file: false,
                size: Bytes::from_mib(101),
                is_member,
                purpose: HOME,
            };
            let end = Some(Bytes::from_mib(end));
            judge(&drive, &[found("GPT", Content::Partitions { end })], false).map_err(|refusal| refusal.to_string())
        };
        let limit = if let Purpose::Home(limit) = HOME { limit.0 >> 20 } else { 0 };
        assert!(matches!(judged(limit, true), Ok(Verdict::Adopted { .. })));
        assert!(judged(limit + 1, true).is_err_and(|message| message.contains("partitions up to byte")));
        assert!(judged(limit, false).is_err_and(|message| message.contains("--force")));
    }

    /// A file system that reaches too far is refused with the command that shrinks it or makes
    /// room.
    #[test]
    fn too_long_file_system_is_refused_with_the_shrink_command() {
        let message = verdict(&[ext4(100)], HOME, false).unwrap_err();
        assert!(message.ends_with("e2fsck -f /dev/sdx1 && resize2fs /dev/sdx1 101376K"), "{message}");
        let end = Some(Bytes::from_mib(100));
        let message = verdict(&[found("xfs", Content::FileSystem { end })], HOME, false).unwrap_err();
        assert!(message.contains("xfs cannot be shrunk: enlarge its partition or volume by at least 1048576 bytes"));
        let message = verdict(&[found("btrfs", Content::FileSystem { end })], HOME, false).unwrap_err();
        assert!(message.contains("btrfs filesystem resize 101376K /mnt"), "{message}");
        let file = drive("hdd.img", true, HOME);
        let message = judge(&file, &[ext4(100)], false).unwrap_err().to_string();
        assert!(message.ends_with("truncate -s +1048576 hdd.img"), "{message}");
        assert!(message.contains("resize2fs hdd.img 101376K && truncate -s 104857600 hdd.img"), "{message}");
        let member = Drive { is_member: true, ..file };
        let message = judge(&member, &[ext4(100)], false).unwrap_err().to_string();
        assert!(message.contains("resize2fs $loop 101376K && losetup -d $loop"), "{message}");
    }

    #[test]
    fn everything_else_is_refused_and_erased_with_force() {
        let label = found("Bimetal label", Content::Label(Some("mail".into())));
        let gpt = found("GPT", Content::Partitions { end: None });
        let cases = [
            (vec![label], HOME, "is labelled as a drive of volume 'mail' already"),
            (vec![ext4(5), gpt.clone()], HOME, "carries GPT partitions"),
            (vec![gpt], Purpose::Slots, "the volume would overwrite them"),
            (vec![ext4(5)], Purpose::Slots, "carries ext4, and the volume would overwrite it"),
            (vec![ext4(5)], Purpose::PartOfHome, "spreads the addresses over several drives"),
            (vec![found("zfs", Content::Part)], HOME, "carries zfs, which is not a file system that can stay"),
            (vec![found("ntfs", Content::FileSystem { end: None })], HOME, "whose end is uncertain"),
        ];
        for (signatures, purpose, expected) in cases {
            let message = verdict(&signatures, purpose, false).unwrap_err();
            assert!(message.contains(expected), "{message}");
            let names = signatures.iter().map(|signature| signature.name).collect();
            assert_eq!(verdict(&signatures, purpose, true), Ok(Verdict::Erased(names)));
        }
    }

    /// Regression: `--force` on a drive with a label erased the file system that could stay.
    #[test]
    fn force_gives_up_a_label_and_keeps_the_file_system_beside_it() {
        let label = found("Bimetal label", Content::Label(Some("mail".into())));
        let home = drive("/dev/sdb1", false, HOME);
        let both = [ext4(50), label.clone()];
        assert!(matches!(judge(&home, &both, false), Err(Refusal::Labelled { .. })));
        let kept = Verdict::Adopted { name: "ext4", end: Bytes::from_mib(50) };
        assert_eq!(judge(&home, &both, true), Ok(kept));
        let too_long = judge(&home, &[ext4(100), label], true);
        assert_eq!(too_long, Ok(Verdict::Erased(vec!["ext4", "Bimetal label"])));
    }
}
