//! The header at the beginning of a home drive while its volume is attached: a tiny file system
//! with a notice.
//!
//! The header is a romfs: read-only by nature and known to `blkid` and `file`. Mounted by hand, the
//! header shows one file with an explanation. Everything after the romfs is zero, so that no other
//! signature is left. Numbers in the header are big-endian, as in every romfs.

use crate::label::Label;

const VOLUME_NAME: &str = "Bimetal member";
const FILE_NAME: &str = "README.txt";
/// Alignment of everything in a romfs.
const UNIT: usize = 16;
/// A regular file. A directory is 1 with the bit for "may be entered".
const KIND_FILE: u32 = 2;
const KIND_DIRECTORY: u32 = 1 | 8;

/// Returns the header for a drive of the volume of `label`, `length` bytes long.
///
/// # Panics
/// Panics if `length` is less than 4 KiB; no guard is that short.
pub fn header(label: &Label, length: usize) -> Vec<u8> {
    assert!(length >= 4096, "a header of {length} bytes has no room for what it says");
    let text = text(label);
    let mut image = b"-rom1fs-".to_vec();
    image.extend([0; 8]);
    put_text(&mut image, VOLUME_NAME);
    let root = image.len();
    let readme = root + 2 * UNIT;
    // The root directory, whose first entry is the file. The root directory has no neighbour, and
    // its name is a dot.
    put_entry(&mut image, 0, KIND_DIRECTORY, readme as u32, 0, ".");
    put_entry(&mut image, 0, KIND_FILE, 0, text.len() as u32, FILE_NAME);
    image.extend(text.as_bytes());
    image.resize(image.len().next_multiple_of(UNIT), 0);
    let size = image.len() as u32;
    image[8..12].copy_from_slice(&size.to_be_bytes());
    let sum = sum_of(&image[..512.min(image.len())]);
    image[12..16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
    assert!(image.len() <= 4096, "a header says less than a page");
    image.resize(length, 0);
    image
}

/// Appends a directory entry and its name, with the checksum over entry and name.
fn put_entry(image: &mut Vec<u8>, next: u32, kind: u32, special: u32, size: u32, name: &str) {
    let start = image.len();
    for word in [next | kind, special, size, 0] {
        image.extend(word.to_be_bytes());
    }
    put_text(image, name);
    let sum = sum_of(&image[start..]);
    image[start + 12..start + 16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
}

/// Appends a name, ended by a zero and padded.
fn put_text(image: &mut Vec<u8>, text: &str) {
    image.extend(text.as_bytes());
    image.push(0);
    image.resize(image.len().next_multiple_of(UNIT), 0);
}

fn sum_of(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    words.fold(0, u32::wrapping_add)
}

/// Returns the text for a person who mounts the drive. The text is part of the on-disk format: if a
/// drive begins with another text, another program has written over the drive.
fn text(label: &Label) -> String {
    let member = label.member_name(label.index);
    let (name, uuid, scheme) = (&label.name, label.volume, &label.scheme);
    format!(
        "This drive is the {member} drive of the Bimetal volume '{name}'\n\
         ({uuid}, scheme {scheme}).\n\
         \n\
         The volume is attached: a part of its newest content may lie on its other drives,\n\
         so what is on this one alone may be old. The first MiB is kept at the drive's end.\n\
         Do not write to this drive.\n\
         \n\
         To use the volume:                bimetal serve {name}\n\
         To make this a plain drive again: bimetal drain --detach {name}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::tests::label;

    #[test]
    fn it_is_a_romfs_with_one_file_and_nothing_behind_it() {
        let image = header(&label(), 1 << 20);
        assert_eq!(image.len(), 1 << 20);
        assert_eq!(&image[..8], b"-rom1fs-");
        assert_eq!(&image[16..31], b"Bimetal member\0");
        let size = u32::from_be_bytes([image[8], image[9], image[10], image[11]]) as usize;
        assert!(size < 4096 && image[size..].iter().all(|&byte| byte == 0));
        assert_eq!(sum_of(&image[..512]), 0);
        // The entries of the root and of the file, each with its name.
        for at in [32, 64] {
            assert_eq!(sum_of(&image[at..at + 32]), 0, "{at}");
        }
        let text = String::from_utf8_lossy(&image[96..size]);
        assert!(text.contains("'mail'") && text.contains("bimetal drain --detach mail"), "{text}");
    }

    #[test]
    fn the_longest_name_fits() {
        let mut label = label();
        label.name = "n".repeat(64);
        header(&label, 4096);
    }
}
