//! Existing content of a drive: file systems, partition tables and members of other volumes, found
//! by their signatures.
//!
//! Each kind is a line of a table: the position of its magic, and its name. Some file systems
//! (ext2/3/4, xfs, btrfs) state their size, and this size is read as well. So the end of such a
//! file system can be compared with the needs of a volume. Nothing is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bimetal_core::label::page::PageError;
use bimetal_core::label::{Guard, usable};
use bimetal_core::units::Bytes;

use crate::page::{LabelPageError, read_label};

/// Kind of content that a signature stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// File system, with its extent on the drive if known for certain.
    FileSystem {
        /// End of the file system, counted from the drive's first byte.
        end: Option<Bytes>,
    },
    /// Table of partitions.
    Partitions {
        /// End of the last partition or of the table's own space, whichever is later, counted from
        /// the drive's first byte; `None` if unknown.
        end: Option<Bytes>,
    },
    /// Part of a larger unit: RAID, LVM, a pool, an encrypted device, another cache.
    Part,
    /// Swap space.
    Swap,
    /// Label of a Bimetal volume, with the volume's name if readable.
    Label(Option<String>),
}

/// Signature on a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Usual name: `ext4`, `GPT`.
    pub name: &'static str,
    /// Kind of content.
    pub content: Content,
}

/// Magic number at a position, with its meaning.
struct Magic {
    at: u64,
    bytes: &'static [u8],
    name: &'static str,
    content: Content,
}

const fn magic(at: u64, bytes: &'static [u8], name: &'static str, content: Content) -> Magic {
    Magic { at, bytes, name, content }
}

const FILE_SYSTEM: Content = Content::FileSystem { end: None };
const PARTITIONS: Content = Content::Partitions { end: None };
/// Entries of a GPT that are read at most; tables have 128.
const GPT_ENTRIES_MAX: u64 = 1024;
const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];

/// Signatures at a fixed position from the drive's beginning.
const FROM_START: &[Magic] = &[
    magic(0x1_0040, b"_BHRfS_M", "btrfs", FILE_SYSTEM),
    magic(0, b"XFSB", "xfs", FILE_SYSTEM),
    magic(1024 + 56, &[0x53, 0xef], "ext", FILE_SYSTEM),
    magic(82, b"FAT32   ", "vfat", FILE_SYSTEM),
    magic(54, b"FAT16   ", "vfat", FILE_SYSTEM),
    magic(54, b"FAT12   ", "vfat", FILE_SYSTEM),
    magic(3, b"EXFAT   ", "exfat", FILE_SYSTEM),
    magic(3, b"NTFS    ", "ntfs", FILE_SYSTEM),
    magic(1024, &[0x10, 0x20, 0xf5, 0xf2], "f2fs", FILE_SYSTEM),
    magic(32_769, b"CD001", "iso9660", FILE_SYSTEM),
    magic(0, b"hsqs", "squashfs", FILE_SYSTEM),
    magic(0, b"-rom1fs-", "romfs", FILE_SYSTEM),
    magic(4086, b"SWAPSPACE2", "swap", Content::Swap),
    magic(4086, b"SWAP-SPACE", "swap", Content::Swap),
    magic(16_374, b"SWAPSPACE2", "swap", Content::Swap),
    magic(65_526, b"SWAPSPACE2", "swap", Content::Swap),
    magic(0, b"LUKS\xba\xbe", "LUKS", Content::Part),
    magic(0, b"LABELONE", "LVM2 physical volume", Content::Part),
    magic(512, b"LABELONE", "LVM2 physical volume", Content::Part),
    magic(1024, b"LABELONE", "LVM2 physical volume", Content::Part),
    magic(1536, b"LABELONE", "LVM2 physical volume", Content::Part),
    magic(0, MD_MAGIC, "md RAID member", Content::Part),
    magic(4096, MD_MAGIC, "md RAID member", Content::Part),
    magic(4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "bcache", Content::Part),
    magic(4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", "bcachefs", FILE_SYSTEM),
    magic(512, b"EFI PART", "GPT", PARTITIONS),
    magic(4096, b"EFI PART", "GPT", PARTITIONS),
];

/// Returns signatures at a position that depends on the size of the drive.
fn from_end(size: u64) -> Vec<Magic> {
    let mut magics = Vec::new();
    let mut at = |at: Option<u64>, bytes, name, content| magics.extend(at.map(|at| magic(at, bytes, name, content)));
    // Version 0.90 is in the last whole 64 KiB before the last partial unit, version 1.0 about 8
    // KiB before the end.
    at((size & !0xffff).checked_sub(0x1_0000), MD_MAGIC, "md RAID member", Content::Part);
    let sectors = size / 512;
    at(sectors.checked_sub(16).map(|sector| (sector & !7) * 512), MD_MAGIC, "md RAID member", Content::Part);
    at(size.checked_sub(512), b"EFI PART", "GPT", PARTITIONS);
    at(size.checked_sub(4096), b"EFI PART", "GPT", PARTITIONS);
    at(size.checked_sub(1024), b"Intel Raid ISM Cfg Sig. ", "Intel RAID member", Content::Part);
    magics
}

/// Returns the content of `drive` of `size` bytes, each kind once. An MBR counts in sectors of
/// `logical_sector` bytes.
///
/// # Errors
/// Fails if the drive cannot be read.
pub fn scan(drive: &File, size: Bytes, logical_sector: u32) -> io::Result<Vec<Signature>> {
    let reader = Reader { drive, size: size.0, logical_sector: u64::from(logical_sector) };
    let mut found: Vec<Signature> = Vec::new();
    for magic in FROM_START.iter().chain(&from_end(size.0)) {
        if reader.is_at(magic.at, magic.bytes)? {
            found.push(reader.look_closer(magic)?);
        }
    }
    if reader.is_zfs()? {
        found.push(Signature { name: "zfs", content: Content::Part });
    }
    if let Some(content) = reader.label()? {
        found.push(Signature { name: "Bimetal label", content });
    }
    let has_label_at_most = found.iter().all(|signature| matches!(signature.content, Content::Label(_)));
    if has_label_at_most && reader.is_mbr()? {
        found.push(Signature { name: "MBR", content: Content::Partitions { end: reader.mbr_end()? } });
    }
    let mut names = Vec::new();
    found.retain(|signature| {
        !names.contains(&signature.name) && {
            names.push(signature.name);
            true
        }
    });
    Ok(found)
}

struct Reader<'a> {
    drive: &'a File,
    size: u64,
    logical_sector: u64,
}

impl Reader<'_> {
    /// Returns the bytes at `at`, or `None` if the drive ends before these bytes.
    fn read<const N: usize>(&self, at: u64) -> io::Result<Option<[u8; N]>> {
        if at.checked_add(N as u64).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.drive.read_exact_at(&mut bytes, at)?;
        Ok(Some(bytes))
    }

    fn is_at(&self, at: u64, wanted: &[u8]) -> io::Result<bool> {
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..wanted.len()];
        if at.checked_add(wanted.len() as u64).is_none_or(|end| end > self.size) {
            return Ok(false);
        }
        self.drive.read_exact_at(bytes, at)?;
        Ok(bytes == wanted)
    }

    /// Returns the exact name for a `magic` that was found, with the size if the content states it.
    fn look_closer(&self, magic: &Magic) -> io::Result<Signature> {
        if magic.name == "GPT" {
            return Ok(Signature { name: "GPT", content: Content::Partitions { end: self.gpt_end(magic.at)? } });
        }
        let told = match magic.name {
            "ext" => self.read(1024)?.map(|superblock| ext(&superblock)),
            "xfs" => self.read(0)?.map(|superblock| ("xfs", xfs_end(&superblock))),
            "btrfs" => self.read(0x1_0000)?.map(|superblock| ("btrfs", btrfs_end(&superblock))),
            _ => None,
        };
        Ok(match told {
            Some((name, end)) => Signature { name, content: Content::FileSystem { end } },
            None => Signature { name: magic.name, content: magic.content.clone() },
        })
    }

    /// Returns true for a ZFS pool. The uberblocks of a pool are in four labels of 256 KiB, two at
    /// each end, in either byte order.
    fn is_zfs(&self) -> io::Result<bool> {
        const LABEL: u64 = 256 << 10;
        let end = self.size / LABEL * LABEL;
        let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
        for label in labels.into_iter().flatten() {
            for at in (label + LABEL / 2..label + LABEL).step_by(1024) {
                let Some(bytes) = self.read(at)? else { continue };
                if [u64::from_le_bytes(bytes), u64::from_be_bytes(bytes)].contains(&0x00ba_b10c) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns a label of Bimetal, even if the label is damaged or of a later version. A drive that
    /// was a plain disk when another program overwrote the first copies of its label counts as a
    /// drive without a label, and the remaining second copies count as leftovers.
    fn label(&self) -> io::Result<Option<Content>> {
        match read_label(self.drive, usable(Bytes(self.size))) {
            Ok(current) => {
                let guard = current.label.guard.filter(|(member, _)| *member == current.label.index);
                let is_leftover = current.by_second_copy && matches!(guard, Some((_, Guard::Down)));
                Ok((!is_leftover).then_some(Content::Label(Some(current.label.name))))
            }
            Err(LabelPageError::Page(PageError::NotALabel) | LabelPageError::TooSmall) => Ok(None),
            Err(LabelPageError::Io(error)) => Err(error),
            Err(LabelPageError::Page(_)) => Ok(Some(Content::Label(None))),
        }
    }

    /// Returns the end of the partitions of a GPT, and of its backup header, from the header at
    /// `at`; `None` for the backup header, whose sector size is unknown.
    fn gpt_end(&self, at: u64) -> io::Result<Option<Bytes>> {
        let sector = at;
        let Some(header) = self.read::<92>(at)?.filter(|_| [512, 4096].contains(&sector)) else { return Ok(None) };
        let (backup, entries) = (u64_le(&header, 32), u64_le(&header, 72).checked_mul(sector));
        let (count, size) = (u64::from(u32_le(&header, 80)), u64::from(u32_le(&header, 84)));
        let mut last = backup;
        for number in 0..count.min(GPT_ENTRIES_MAX) {
            let place = entries.and_then(|entries| entries.checked_add(number.checked_mul(size)?));
            let Some(entry) = place.map_or(Ok(None), |place| self.read::<48>(place))? else { break };
            if entry[..16] != [0; 16] {
                last = last.max(u64_le(&entry, 40));
            }
        }
        Ok(last.checked_add(1).and_then(|sectors| sectors.checked_mul(sector)).map(Bytes))
    }

    /// Returns the end of the last primary partition of a boot sector. The boot sector's entry that
    /// protects a GPT says nothing about the end of the partitions.
    fn mbr_end(&self) -> io::Result<Option<Bytes>> {
        let ends = self.read::<512>(0)?.and_then(|sector| {
            let entries = sector[446..510].chunks_exact(16).filter(|entry| is_used(entry) && entry[4] != 0xee);
            entries.map(|entry| u64::from(u32_le(entry, 8)) + u64::from(u32_le(entry, 12))).max()
        });
        Ok(ends.map(|sectors| Bytes(sectors * self.logical_sector)))
    }

    /// Returns true for a boot sector with at least one partition, if every entry of its table is
    /// valid.
    fn is_mbr(&self) -> io::Result<bool> {
        let Some(sector) = self.read::<512>(0)? else { return Ok(false) };
        let entries = sector[446..510].chunks_exact(16);
        let possible = entries.clone().all(|entry| entry[0] & 0x7f == 0);
        Ok(sector[510..] == [0x55, 0xaa] && possible && entries.clone().any(is_used))
    }
}

/// Returns true for an entry of a boot sector that is a partition.
fn is_used(entry: &[u8]) -> bool {
    entry[4] != 0 && u32_le(entry, 12) != 0
}

/// Returns name and end of an ext file system, from its superblock.
fn ext(superblock: &[u8; 1024]) -> (&'static str, Option<Bytes>) {
    let (compatible, incompatible, read_only) =
        (u32_le(superblock, 0x5c), u32_le(superblock, 0x60), u32_le(superblock, 0x64));
    let has_journal = compatible & 0x4 != 0;
    // Features that only ext4 has. Incompatible features of all versions are file types, recovery,
    // a journal device and optional block groups. Read-only features of all versions are sparse
    // superblocks, large files and directory trees.
    let name = match () {
        () if incompatible & !0x1e != 0 || read_only & !0x7 != 0 => "ext4",
        () if has_journal => "ext3",
        () => "ext2",
    };
    // The journal of another file system is not a file system.
    if incompatible & 0x8 != 0 {
        return ("ext journal", None);
    }
    let high = if incompatible & 0x80 != 0 { u64::from(u32_le(superblock, 0x150)) } else { 0 };
    let blocks = high << 32 | u64::from(u32_le(superblock, 4));
    let block = 1024u64.checked_shl(u32_le(superblock, 24));
    (name, block.filter(|block| *block <= 65_536).and_then(|block| blocks.checked_mul(block)).map(Bytes))
}

/// Returns the end of an xfs, from its superblock; `None` if its log or real-time part is on
/// another drive.
fn xfs_end(superblock: &[u8; 512]) -> Option<Bytes> {
    let be32 =
        |at: usize| u32::from_be_bytes([superblock[at], superblock[at + 1], superblock[at + 2], superblock[at + 3]]);
    let be64 = |at: usize| u64::from(be32(at)) << 32 | u64::from(be32(at + 4));
    let (block, data_blocks, real_time_blocks, log_start) = (be32(4), be64(8), be64(16), be64(48));
    if real_time_blocks != 0 || log_start == 0 {
        return None;
    }
    data_blocks.checked_mul(u64::from(block)).map(Bytes)
}

/// Returns the end of a btrfs on this device, from its superblock; `None` if the file system has
/// several devices.
fn btrfs_end(superblock: &[u8; 4096]) -> Option<Bytes> {
    let devices = u64_le(superblock, 0x88);
    (devices == 1).then(|| Bytes(u64_le(superblock, 0xc9 + 8)))
}

fn u32_le(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_le(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_le(bytes, at)) | u64::from(u32_le(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// File of `mib` MiB, removed on drop.
    struct Image(PathBuf, u64);

    impl Image {
        fn new(name: &str, mib: u64) -> Self {
            let path = std::env::temp_dir().join(format!("bimetal-signature-{name}-{}", std::process::id()));
            File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("a file for the test");
            Self(path, mib << 20)
        }

        fn write(&self, at: u64, bytes: &[u8]) {
            File::options().write(true).open(&self.0).and_then(|file| file.write_all_at(bytes, at)).expect("written");
        }

        fn scan(&self) -> Vec<Signature> {
            scan(&File::open(&self.0).expect("a file"), Bytes(self.1), 512).expect("scanned")
        }

        fn names(&self) -> Vec<&'static str> {
            self.scan().iter().map(|signature| signature.name).collect()
        }
    }

    impl Drop for Image {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Runs a program on `image`. Returns false if the program is not installed.
    fn made_by(program: &str, arguments: &[&str], image: &Path) -> bool {
        match Command::new(program).args(arguments).arg(image).output() {
            Ok(output) => {
                assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
                true
            }
            Err(_) => {
                assert!(std::env::var_os("BIMETAL_REQUIRE_ALL").is_none(), "no {program}");
                println!("skipped: no {program}");
                false
            }
        }
    }

    #[test]
    fn file_systems_are_told_apart_and_say_where_they_end() {
        let of = |program: &str, arguments: &[&str], mib: u64| {
            let image = Image::new("fs", mib);
            made_by(program, arguments, &image.0).then(|| image.scan())
        };
        let whole =
            |name, mib| vec![Signature { name, content: Content::FileSystem { end: Some(Bytes::from_mib(mib)) } }];
        for kind in ["ext2", "ext3", "ext4"] {
            if let Some(found) = of("mkfs.ext4", &["-q", "-t", kind], 16) {
                assert_eq!(found, whole(kind, 16));
            }
        }
        if let Some(found) = of("mkfs.xfs", &["-q"], 400) {
            assert_eq!(found, whole("xfs", 400));
        }
        if let Some(found) = of("mkswap", &[], 16) {
            assert_eq!(found, [Signature { name: "swap", content: Content::Swap }]);
        }
    }

    #[test]
    fn an_empty_drive_has_no_signature_however_small() {
        for mib in [0, 1, 16] {
            assert_eq!(Image::new("empty", mib).names(), Vec::<&str>::new());
        }
    }

    #[test]
    fn what_lies_at_the_end_is_found_too() {
        let size = 16 << 20;
        // Positions as documented by the makers, each on a drive of 16 MiB.
        let cases: [(u64, &[u8], &str); 7] = [
            (size - 65_536, &0xa92b_4efc_u32.to_le_bytes(), "md RAID member"),
            (size - 8192, &0xa92b_4efc_u32.to_le_bytes(), "md RAID member"),
            (4096, &0xa92b_4efc_u32.to_le_bytes(), "md RAID member"),
            (size - 512, b"EFI PART", "GPT"),
            (size - 131_072, &0x00ba_b10c_u64.to_be_bytes(), "zfs"),
            (512, b"LABELONE", "LVM2 physical volume"),
            (0, b"LUKS\xba\xbe\0\x02", "LUKS"),
        ];
        for (at, bytes, name) in cases {
            let image = Image::new("end", 16);
            image.write(at, bytes);
            assert_eq!(image.names(), [name], "at {at}");
        }
    }

    #[test]
    fn a_boot_sector_is_a_table_only_if_it_has_partitions() {
        let image = Image::new("mbr", 16);
        image.write(510, &[0x55, 0xaa]);
        assert_eq!(image.names(), Vec::<&str>::new());
        let mut entry = [0; 16];
        (entry[0], entry[4], entry[8], entry[12]) = (0x80, 0x83, 1, 100);
        image.write(446, &entry);
        let end = Some(Bytes(101 * 512));
        assert_eq!(image.scan(), [Signature { name: "MBR", content: Content::Partitions { end } }]);
        let of_4_kib = scan(&File::open(&image.0).expect("a file"), Bytes(image.1), 4096).expect("scanned");
        let end = Some(Bytes(101 * 4096));
        assert_eq!(of_4_kib, [Signature { name: "MBR", content: Content::Partitions { end } }]);
        // An entry without sectors, and one that protects a GPT, are not partitions.
        image.write(446 + 16 + 4, &[0x83, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        image.write(446 + 32 + 4, &[0xee, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        let end = Some(Bytes(101 * 512));
        assert_eq!(image.scan(), [Signature { name: "MBR", content: Content::Partitions { end } }]);
        image.write(446, &[0x77]);
        assert_eq!(image.names(), Vec::<&str>::new());
    }

    /// The end of a GPT is the end of its backup header, or of a partition that lies after the
    /// header.
    #[test]
    fn gpt_says_where_its_partitions_end() {
        let end_of = |image: &Image| match &image.scan()[..] {
            [Signature { name: "GPT", content: Content::Partitions { end } }] => *end,
            other => panic!("{other:?}"),
        };
        for sector in [512, 4096] {
            let image = Image::new("gpt", 16);
            let mut header = [0; 92];
            header[..8].copy_from_slice(b"EFI PART");
            header[32..40].copy_from_slice(&999u64.to_le_bytes());
            header[72..80].copy_from_slice(&2u64.to_le_bytes());
            header[80..84].copy_from_slice(&128u32.to_le_bytes());
            header[84..88].copy_from_slice(&128u32.to_le_bytes());
            image.write(sector, &header);
            assert_eq!(end_of(&image), Some(Bytes(1000 * sector)));
            let mut entry = [0; 48];
            (entry[0], entry[41]) = (1, 8);
            image.write(2 * sector + 5 * 128, &entry);
            assert_eq!(end_of(&image), Some(Bytes((0x800 + 1) * sector)), "the sixth partition is last");
            // Numbers that no table has.
            header[80..88].fill(0xff);
            image.write(sector, &header);
            assert!(end_of(&image).is_some());
            header[32..40].fill(0xff);
            image.write(sector, &header);
            assert_eq!(end_of(&image), None);
        }
    }
}
