//! Known content on a member that is home: judged before the volume writes to the sectors of that
//! content.

use std::fs::File;
use std::io;

use bimetal_core::layout::{HomeExtent, Layout};
use bimetal_core::units::{Bytes, Sectors};
use bimetal_device::probe::Probe;
use bimetal_device::signature::{self, Content};

use crate::verdict::{Drive as Judged, Purpose, Refusal, Verdict, judge};

/// Judges the content of a member's drive for which `matters` returns true. The closure gets a
/// content and the end of `home`, in bytes.
///
/// # Errors
/// Fails if the drive cannot be read.
pub(crate) fn judge_home(
    file: &File,
    probe: &Probe,
    layout: &Layout,
    home: &HomeExtent,
    matters: impl Fn(&Content, Bytes) -> bool,
) -> io::Result<Result<Verdict, Refusal>> {
    let end = Sectors(home.blocks.count * layout.block.sectors()).bytes();
    let mut signatures = signature::scan(file, probe.size, probe.logical_sector)?;
    signatures.retain(|signature| matters(&signature.content, end));
    let (path, is_file, size, purpose) = (probe.path.as_path(), probe.is_file(), probe.size, Purpose::Home(end));
    Ok(judge(&Judged { path, is_file, size, is_member: true, purpose }, &signatures, false))
}

/// Returns true for content that is not a label of a volume.
pub(crate) fn is_foreign(content: &Content, _: Bytes) -> bool {
    !matches!(content, Content::Label(_))
}

/// Returns true for a file system, or partitions, that end beyond `end`.
pub(crate) fn is_too_long(content: &Content, end: Bytes) -> bool {
    match content {
        Content::FileSystem { end: Some(of_content) } | Content::Partitions { end: Some(of_content) } => {
            *of_content > end
        }
        _ => false,
    }
}
