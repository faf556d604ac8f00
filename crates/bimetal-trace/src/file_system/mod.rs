//! Places of a mounted file system on its device, from the kernel: the extents of files, and free
//! space. A map of both joins the blocks of a trace with files (see
//! [`FileMap`](crate::analysis::FileMap)).

mod extents;
mod free_space;

use std::io::{self, Write};

pub use extents::{ExtentsError, Found, PlacedFile, born, files_below};
pub use free_space::free_space;

use crate::analysis::FREE;

/// Writes the map of files that [`FileMap`](crate::analysis::FileMap) reads: the extents of
/// `files`, and the free ranges by first byte and length. Bytes that several files share belong to
/// the first file. A file whose path has a quote or the end of a line is left out.
///
/// # Errors
/// Fails if the output cannot be written.
pub fn write_map(map: &mut impl Write, files: &[PlacedFile], free: &[(u64, u64)]) -> io::Result<()> {
    let mut lines: Vec<(u64, u64, &str)> = Vec::new();
    for file in files.iter().filter(|file| !file.path.contains(['\n', '\r', '"'])) {
        lines.extend(file.extents.iter().map(|&(start, length)| (start, length, file.path.as_str())));
    }
    lines.extend(free.iter().map(|&(start, length)| (start, length, FREE)));
    lines.sort_by_key(|&(start, ..)| start);
    let mut end = 0;
    writeln!(map, "offset,length,path")?;
    for (start, length, name) in lines {
        if start >= end {
            writeln!(map, "{start},{length},{name}")?;
            end = start + length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_belong_to_the_first_file_of_the_map() {
        let file = |path: &str, extents: &[(u64, u64)]| PlacedFile {
            path: path.to_owned(),
            inode: 0,
            born: 0,
            extents: extents.to_vec(),
            is_program: false,
        };
        let files = [file("a", &[(8192, 4096), (0, 4096)]), file("b", &[(8192, 4096)]), file("c\"", &[(16_384, 1)])];
        let mut map = Vec::new();
        write_map(&mut map, &files, &[(4096, 4096)]).unwrap();
        assert_eq!(String::from_utf8(map).unwrap(), "offset,length,path\n0,4096,a\n4096,4096,<free>\n8192,4096,a\n");
    }
}
