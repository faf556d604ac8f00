//! The Mover library of Combo Drive's section 3.1: files of a mounted file system, moved between
//! the SSD and the HDD while they are in use.
//!
//! The paper's library moves clusters of files "to other free logical clusters of the disk" by a
//! call of the operating system. On ext4, the call is `EXT4_IOC_MOVE_EXT`, which exchanges the
//! blocks of two files. The second file is a *donor*: a file without a name, whose blocks were
//! allocated on the wanted drive. The kernel copies the content and exchanges the blocks under the
//! locks of both files, so a reader or writer never sees other content.
//!
//! XFS has no call that exchanges a part of two files. On XFS a donor gets a copy of the file. The
//! kernel then swaps all extents of the two files, unless the file was written after the copy, as
//! `xfs_fsr` does.
//!
//! The SSD is the first part of the device, and the HDD is the second part. A file's inode number,
//! size, times and content stay.
//!
//! - [`runs`]: runs of blocks, and free space as runs. [`plan`](mod@plan): the files that move, in
//!   their order; pure functions.
//! - [`file_system`]: the mounted file system, and the folder in which the Mover keeps its state.
//!   [`kernel`]: the calls of the operating system.
//! - [`arena`]: donors, with blocks on the wanted drive. [`knob`]: the allocator's setting that
//!   donors need, restored after each use and after a crash.
//! - [`mover`]: moves, batch by batch. [`pace`]: the rate of moves, and idle moments of the device.
//!   [`journal`]: places from which files came, so that moves can be undone. [`history`]: places of
//!   files at an earlier time.
//!
//! Read first: [`mover`].

pub mod arena;
pub mod file_system;
pub mod history;
pub mod journal;
pub mod kernel;
pub mod knob;
pub mod mover;
pub mod pace;
pub mod plan;
mod renamed;
pub mod runs;
mod swap;
#[cfg(test)]
mod test_folder;

/// Size of a block. The kernel exchanges blocks by whole pages, so the blocks of the file system
/// must be as large as a page.
pub const BLOCK_BYTES: u64 = 4096;

/// Drive of a Combo Drive, which concatenates an SSD and an HDD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The SSD: the device's first blocks.
    Ssd,
    /// The HDD: all other blocks.
    Hdd,
}

/// Reasons for which no file moves, or for which no further file moves.
#[derive(Debug, thiserror::Error)]
pub enum MoverError {
    /// A path cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The paths lie on different file systems.
    #[error("{path} lies on another file system than {first}: expected paths of one file system; start once for each")]
    OtherDevice {
        /// The path.
        path: String,
        /// First path.
        first: String,
    },
    /// The file system is not of a kind that can move files.
    #[error("{path}: its file system is {kind}: expected ext4 or xfs, whose files move while mounted")]
    Kind {
        /// The path.
        path: String,
        /// Kind of the file system.
        kind: String,
    },
    /// The file system is mounted read-only.
    #[error("{path}: its file system is mounted read-only: expected a writable one (mount -o remount,rw)")]
    ReadOnly {
        /// The path.
        path: String,
    },
    /// The blocks are not as large as a page.
    #[error("{path}: its file system has blocks of {bytes} bytes: expected 4096, the only size that moves")]
    BlockSize {
        /// The path.
        path: String,
        /// Size of a block.
        bytes: u64,
    },
    /// The program does not run as root.
    #[error("only root may steer the allocator of a file system: expected to be started by root (sudo)")]
    NotRoot,
    /// Another user may change the folder of the state.
    #[error(
        "{folder}: another user may change this folder, in which the state of moves is kept: expected a directory of the \
         user who runs the program, to which nobody else may write; `rm -r {folder}` removes it, with its notes for --undo"
    )]
    UnsafeFolder {
        /// Folder of the state.
        folder: String,
    },
    /// Another run is at work on the file system.
    #[error("{folder}: another run moves files of this file system: wait for its end")]
    Busy {
        /// Folder of the state.
        folder: String,
    },
    /// The file system refuses to exchange blocks, whatever the file.
    #[error(
        "{path}: the kernel exchanges no blocks of this file system (EXT4_IOC_MOVE_EXT): expected ext4 without bigalloc \
         and without data=journal"
    )]
    NotSupported {
        /// File whose blocks were to be exchanged.
        path: String,
    },
    /// The content of a file differs after its move.
    #[error(
        "{path}: its content differs after the move (checksum {before:08x} before, {after:08x} after) and nobody wrote to \
         it: nothing more is moved; compare it with a backup, and run e2fsck"
    )]
    Content {
        /// The file.
        path: String,
        /// Checksum before the move.
        before: u32,
        /// Checksum after the move.
        after: u32,
    },
    /// The journal of moves has a line that cannot be read.
    #[error("{path}:{line}: no line of a journal of moves: {reason}; remove the file to give up undoing its moves")]
    Journal {
        /// Path of the journal.
        path: String,
        /// Number of the line.
        line: usize,
        /// Reason of the parser.
        reason: String,
    },
    /// The journal lists no move.
    #[error("{path}: the journal lists no move: nothing to undo")]
    NothingToUndo {
        /// Path of the journal.
        path: String,
    },
}

impl MoverError {
    /// Returns a function that names the path of an error of the operating system.
    fn at(path: &std::path::Path) -> impl Fn(std::io::Error) -> Self + Copy + '_ {
        move |source| Self::Read { path: path.display().to_string(), source }
    }
}
