//! What is asked, and what is answered. What takes long answers with progress until it is done; it goes on when who asked
//! goes away, and whoever asks for the same again hears how far it is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::report::Lost;
use super::status::Status;

/// What can be asked of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it is.
    Status {},
    /// To clear the list of what is lost or bad.
    Acknowledge {
        /// On whose behalf: a line of the history names them.
        by: String,
    },
    /// To move everything home.
    Drain {
        /// Whether it stops serving afterwards.
        #[serde(default)]
        detach: bool,
        /// Whether it stops serving although clients are connected.
        #[serde(default)]
        force: bool,
    },
    /// To move everything home and let the drive off home go, while serving goes on.
    Detach {},
    /// To take a new drive in the place of the one that is gone.
    Attach {
        /// The new drive, in full.
        path: PathBuf,
        /// Whether what lies on it may be erased.
        #[serde(default)]
        force: bool,
    },
    /// To change a parameter.
    Set {
        /// Which.
        key: String,
        /// Its value, as `--set` takes it.
        value: String,
    },
    /// To check what it keeps.
    Check {
        /// Whether to read every block off home and hold it against its checksum.
        #[serde(default)]
        scrub: bool,
    },
    /// To record the requests that it serves.
    TraceStart {
        /// The file, in full.
        path: PathBuf,
    },
    /// To end the recording.
    TraceStop {},
    /// To stop serving.
    Stop {
        /// Whether also while clients are connected.
        #[serde(default)]
        force: bool,
    },
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// How the server is.
    Status {
        /// That.
        status: Box<Status>,
    },
    /// How far something is that takes long; more follows.
    Progress(Progress),
    /// It is done.
    Done(Done),
    /// It cannot be done.
    Error {
        /// What is wrong, and what to do.
        message: String,
    },
}

impl Reply {
    /// That something cannot be done.
    pub fn error(message: impl Into<String>) -> Self {
        Reply::Error { message: message.into() }
    }

    /// Whether nothing more follows.
    pub fn is_last(&self) -> bool {
        !matches!(self, Reply::Progress(_))
    }
}

/// How far something is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// What is done: `drain`, `attach`, `check`.
    pub task: String,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Bytes that are left.
    pub left_bytes: u64,
    /// Bytes done in a second, of late; null at first.
    pub bytes_per_s: Option<f64>,
    /// When it will be done at this rate; null where that cannot be said.
    pub eta_s: Option<f64>,
    /// What gets in the way, if something does.
    pub trouble: Option<String>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// In words.
    pub message: String,
    /// What a check found.
    pub check: Option<CheckReport>,
}

impl Done {
    /// Done, in words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), check: None }
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// What is wrong with the metadata, each in words; none where all is well.
    pub metadata: Vec<String>,
    /// Blocks off home that were read and held against their checksums; null without `--scrub`.
    pub blocks_read: Option<u64>,
    /// Blocks that could not be read or differ, the first few thousand of them.
    pub bad: Vec<BadBlock>,
    /// How many there are.
    pub bad_blocks: u64,
    /// What was found lost or bad before and was not acknowledged, or is lost still.
    #[serde(default)]
    pub lost: Lost,
}

/// A block whose copy off home is not what was written there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BadBlock {
    /// The unit.
    pub unit: u16,
    /// Where it begins in the unit, in bytes.
    pub offset_bytes: u64,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Whether home has the same content; then the copy was dropped, and nothing is lost.
    pub home_has_it: bool,
    /// What became of it: `given-up` (home serves), `rewritten` or `one-copy-left` (of a mirror),
    /// `no-good-copy`, `copies-differ`.
    #[serde(default)]
    pub outcome: String,
}
