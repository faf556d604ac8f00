//! Search for files by their numbers, for files that have another path now: the file was renamed,
//! or its file system is mounted at another place.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bimetal_trace::file_system::born;

use crate::history::FileKey;

/// Result of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Paths of the files that were found.
    pub(crate) paths: HashMap<FileKey, PathBuf>,
    /// Set if a directory could not be read, so that a file that was not found may exist.
    pub(crate) is_partial: bool,
}

/// Searches for the regular files `wanted` below `root`, within one file system.
pub(crate) fn find(root: &Path, wanted: &HashSet<FileKey>) -> Found {
    let mut found = Found::default();
    let Ok(device) = fs::metadata(root).map(|metadata| metadata.dev()) else {
        return Found { is_partial: true, ..found };
    };
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            found.is_partial = true;
            continue;
        };
        for entry in entries {
            let Ok((path, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else {
                found.is_partial = true;
                continue;
            };
            let key = (metadata.ino(), born(&metadata));
            if metadata.is_dir() && metadata.dev() == device {
                waiting.push(path);
            } else if metadata.is_file() && wanted.contains(&key) {
                found.paths.insert(key, path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn file_is_found_below_another_name() {
        let folder = TestFolder::new("renamed");
        let (one, below) = (folder.0.join("one"), folder.0.join("below"));
        fs::write(&one, "content").unwrap();
        fs::create_dir(&below).unwrap();
        let metadata = fs::metadata(&one).unwrap();
        let key = (metadata.ino(), born(&metadata));
        fs::rename(&one, below.join("two")).unwrap();
        let found = find(&folder.0, &HashSet::from([key, (u64::MAX, 0)]));
        assert_eq!((found.paths, found.is_partial), (HashMap::from([(key, below.join("two"))]), false));
        assert!(find(&folder.0.join("none"), &HashSet::new()).is_partial);
    }
}
