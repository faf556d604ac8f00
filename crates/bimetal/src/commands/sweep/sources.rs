//! Digest of source files, computed when the program is built.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns a digest of the names and the content of all files at and below `paths`, which are below
/// `root`.
///
/// # Errors
/// A file cannot be read.
#[cfg_attr(not(test), allow(dead_code, reason = "the build script calls it"))]
pub(crate) fn digest(root: &Path, paths: &[PathBuf]) -> io::Result<u64> {
    let mut files = Vec::new();
    paths.iter().try_for_each(|path| add_files(root, path, &mut files))?;
    files.sort();
    let mut digest = Fnv::default();
    for file in files {
        digest.add(file.to_string_lossy().replace('\\', "/").as_bytes());
        digest.add(&fs::read(root.join(&file))?);
    }
    Ok(digest.0)
}

fn add_files(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !root.join(path).is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(path))? {
        add_files(root, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}

/// Hash FNV-1a of 64 bits: the same on every machine and for every compiler.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a part, after its length.
    fn add(&mut self, part: &[u8]) {
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(part) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_changes_with_name_and_content_of_each_file() {
        let root = std::env::temp_dir().join(format!("bimetal-sources-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("src/deep")).expect("a folder");
        let write = |name: &str, text: &str| fs::write(root.join(name), text).expect("written");
        let now = || digest(&root, &["src".into(), "lock".into()]).expect("read");
        write("lock", "1");
        write("src/a.rs", "fn a() {}");
        write("src/deep/b.rs", "fn b() {}");
        let first = now();
        assert_eq!(first, now());
        write("src/deep/b.rs", "fn b() { }");
        let changed = now();
        write("src/deep/b.rs", "fn b() {}");
        assert_eq!(first, now());
        write("lock", "2");
        let locked = now();
        write("lock", "1");
        fs::rename(root.join("src/deep/b.rs"), root.join("src/deep/c.rs")).expect("renamed");
        let renamed = now();
        fs::remove_dir_all(&root).expect("removed");
        let distinct: std::collections::BTreeSet<u64> = [first, changed, locked, renamed].into();
        assert_eq!(distinct.len(), 4);
    }
}
