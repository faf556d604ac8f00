//! Requests and replies of the control socket. A long task replies with progress until it is done.
//! The task continues when its requester disconnects, and a repeated request follows its progress.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use bimetal_volumes::lost::Lost;
use bimetal_volumes::status::{Progress, Status};

/// Request to a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Returns the status of the volume.
    Status {},
    /// Clears the list of lost or bad content.
    Acknowledge {
        /// Person on whose behalf the list is cleared, for the line in the history.
        by: String,
    },
    /// Writes all dirty blocks back.
    Drain {
        /// Set to stop serving after the write-back.
        #[serde(default)]
        detach: bool,
        /// Set to stop serving although clients are connected.
        #[serde(default)]
        force: bool,
    },
    /// Writes all dirty blocks back and detaches the drive off home, while serving continues.
    Detach {},
    /// Attaches a new drive in the place of the missing or detached drive.
    Attach {
        /// Path of the new drive, absolute.
        path: PathBuf,
        /// Set if existing content of the drive may be erased.
        #[serde(default)]
        force: bool,
    },
    /// Changes a parameter.
    Set {
        /// Name of the parameter.
        key: String,
        /// Value, as `--set` takes it.
        value: String,
    },
    /// Checks the block map and, with `scrub`, the content off home.
    Check {
        /// Set to read every block off home and compare it with its checksum.
        #[serde(default)]
        scrub: bool,
    },
    /// Records the served requests as a trace.
    TraceStart {
        /// Path of the trace, absolute.
        path: PathBuf,
    },
    /// Ends the recording.
    TraceStop {},
    /// Stops serving.
    Stop {
        /// Set to stop although clients are connected.
        #[serde(default)]
        force: bool,
    },
}

/// Reply of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// Status of the volume.
    Status {
        /// Document of the status.
        status: Box<Status>,
    },
    /// Progress of a long task; more replies follow.
    Progress(Progress),
    /// The request is done.
    Done(Done),
    /// The server did what it could, and the answer to the request is no: a drain ended, and
    /// content is still off home.
    No {
        /// Description of the result, and of its remedy.
        message: String,
    },
    /// The server refuses the request.
    Error {
        /// Description of the fault, and of its remedy.
        message: String,
    },
}

impl Reply {
    /// Makes the reply to a request that cannot be done.
    pub fn error(message: impl Into<String>) -> Self {
        Reply::Error { message: message.into() }
    }

    /// Returns true if no further reply follows.
    pub fn is_last(&self) -> bool {
        !matches!(self, Reply::Progress(_))
    }
}

/// Result of a task.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Result as text.
    pub message: String,
    /// Findings of a check.
    pub check: Option<CheckReport>,
}

impl Done {
    /// Makes a result with a text alone.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), check: None }
    }
}

/// Findings of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// Faults of the metadata, each as text; empty if the metadata has no faults.
    pub metadata: Vec<String>,
    /// Number of blocks off home that were read and compared with their checksums; null without
    /// `--scrub`.
    pub blocks_read: Option<u64>,
    /// Blocks that cannot be read or differ, up to the first few thousand.
    pub bad: Vec<BadBlock>,
    /// Number of bad blocks.
    pub bad_blocks: u64,
    /// Number of pages of metadata that the scrub found bad; without `--scrub`, that the start of a
    /// stopped volume for the check found bad.
    #[serde(default)]
    pub bad_metadata_pages: u64,
    /// Number of these pages that the volume did not write again: the drive refuses the write, or
    /// the page belongs to a log's index, whose segments have the same records.
    #[serde(default)]
    pub bad_metadata_pages_left: u64,
    /// Set if the scrub ended before it had read everything.
    #[serde(default)]
    pub interrupted: bool,
    /// Content that was found lost or bad earlier and was not acknowledged, or is still lost.
    #[serde(default)]
    pub lost: Lost,
}

/// Block with a copy that does not have the content that was written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BadBlock {
    /// Number of the unit.
    pub unit: u16,
    /// Offset of the block in the unit, in bytes.
    pub offset_bytes: u64,
    /// Size of the block, in bytes.
    pub bytes: u64,
    /// Set if another place has the content, so that nothing is lost.
    pub home_has_it: bool,
    /// Outcome: `given-up` (home serves), `rewritten` or `one-copy-left` (of a mirror or of home),
    /// `no-good-copy`, `copies-differ`.
    #[serde(default)]
    pub outcome: String,
}
