//! State of flash drives between two runs, as a file: the tables of a drive's translation layer
//! (places of data, erases of each block), so that the next run continues where the first run
//! ended.
//!
//! `archive` writes and reads tables; the owner of each table lists its parts in one walk. This
//! module adds a checksum over all, the drives by name, and the figures for which each drive was
//! made, because the tables are meaningless for another drive. The saved state leaves out times,
//! the write buffer and the statistics of the run. A restored drive is at rest, and its pending
//! operations have reached the dies.

pub(crate) mod archive;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use archive::{Archive, Checked, Inconsistent, ensure};

use super::geometry::Geometry;
use super::precondition::Precondition;
use super::profile::FlashProfile;
use crate::profile::BadFigure;

const MAGIC: [u8; 4] = *b"BImf";
/// Version of the form that this program writes, and the only version that it reads.
pub const VERSION: u16 = 2;
/// Size of the header: magic, version, two bytes of zero, and the checksum of all that follows.
const HEADER_BYTES: usize = 12;
/// Largest number of drives in a file, more than any volume has.
const DRIVES_MAX: u64 = 64;
const TEXT_BYTES_MAX: u64 = 255;

/// State of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveState {
    /// Name that the drive had in its run.
    pub drive: String,
    /// Tables returned by [`DeviceModel::save_state`](crate::DeviceModel::save_state).
    pub tables: Vec<u8>,
}

/// Reasons for which a file holds no state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// The file does not begin like a file of saved states.
    #[error("not a saved state of a drive: expected a file that --save-state wrote")]
    NoState,
    /// The file has another version.
    #[error("a saved state of version {0}, but this program reads version {VERSION}: save the state again")]
    Version(u16),
    /// The file has changed since it was written.
    #[error("the saved state is damaged: {0}")]
    Damaged(String),
}

/// Reasons for which a drive cannot continue from a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreError {
    /// The drive cannot be made, or is not the drive of the state.
    Figure(BadFigure),
    /// The state is not a possible state of this drive.
    Damaged(String),
}

impl From<BadFigure> for RestoreError {
    fn from(bad: BadFigure) -> Self {
        Self::Figure(bad)
    }
}

impl From<Inconsistent> for RestoreError {
    fn from(Inconsistent(what): Inconsistent) -> Self {
        Self::Damaged(what)
    }
}

/// Encodes the states of several drives as a file.
pub fn encode(drives: &[DriveState]) -> Vec<u8> {
    let mut bytes = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 6]].concat();
    archive::append(&mut bytes, drives.len() as u64);
    for DriveState { drive, tables } in drives {
        for part in [drive.as_bytes(), tables] {
            archive::append(&mut bytes, part.len() as u64);
            bytes.extend_from_slice(part);
        }
    }
    let checksum = crc32c::crc32c(&bytes[HEADER_BYTES..]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Decodes the states in a file.
///
/// # Errors
/// Fails if the file was not written by [`encode`].
pub fn decode(bytes: &[u8]) -> Result<Vec<DriveState>, StateError> {
    let Some((header, mut rest)) = bytes.split_at_checked(HEADER_BYTES).filter(|(header, _)| header[..4] == MAGIC)
    else {
        return Err(StateError::NoState);
    };
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return Err(StateError::Version(version));
    }
    if crc32c::crc32c(rest).to_le_bytes() != header[8..] || header[6..8] != [0; 2] {
        return Err(StateError::Damaged("wrong checksum".to_owned()));
    }
    decode_drives(&mut rest).map_err(|Inconsistent(what)| StateError::Damaged(what))
}

fn decode_drives(bytes: &mut &[u8]) -> Result<Vec<DriveState>, Inconsistent> {
    let count = archive::take(bytes)?;
    ensure(count <= DRIVES_MAX, || format!("{count} drives"))?;
    let mut drives: Vec<DriveState> = Vec::new();
    for _ in 0..count {
        let drive = take_bytes(bytes)?;
        let drive =
            String::from_utf8(drive).map_err(|_| Inconsistent("a drive's name is not valid UTF-8".to_owned()))?;
        ensure(drives.iter().all(|state| state.drive != drive), || format!("two drives with the name {drive}"))?;
        drives.push(DriveState { drive, tables: take_bytes(bytes)? });
    }
    ensure(bytes.is_empty(), || format!("{} bytes after the last drive", bytes.len()))?;
    Ok(drives)
}

fn take_bytes(bytes: &mut &[u8]) -> Result<Vec<u8>, Inconsistent> {
    let len = archive::take(bytes)?;
    let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
    let (taken, rest) = split.ok_or_else(|| Inconsistent("the file ends too soon".to_owned()))?;
    *bytes = rest;
    Ok(taken.to_vec())
}

/// Figures for which a drive was made, and its precondition.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// Figures on which the meaning of the tables depends.
    figures: Vec<(&'static str, String)>,
    pub(crate) precondition: Precondition,
    /// First unit in the state `precondition`; `units` is the number of these units.
    pub(crate) start: u32,
    pub(crate) units: u32,
    pub(crate) seed: u64,
}

impl Origin {
    /// Returns the origin of a drive of `profile` and `geometry`, of which `units` units from
    /// `start` on are in the state `precondition`.
    pub(crate) fn new(
        profile: &FlashProfile,
        geometry: &Geometry,
        precondition: Precondition,
        (start, units): (u32, u32),
        seed: u64,
    ) -> Self {
        Self { figures: figures(profile, geometry), precondition, start, units, seed }
    }

    /// Saves the origin; or checks that the figures equal the saved figures, and reads the
    /// precondition.
    pub(crate) fn transfer(&mut self, archive: &mut Archive) -> Result<(), RestoreError> {
        for (key, value) in &self.figures {
            let mut saved = value.clone().into_bytes();
            let mut len = saved.len() as u64;
            archive.number(&mut len, TEXT_BYTES_MAX)?;
            saved.resize(len as usize, 0);
            for byte in &mut saved {
                archive.number(byte, u8::MAX.into())?;
            }
            if saved != value.as_bytes() {
                let saved = String::from_utf8_lossy(&saved);
                return Err(BadFigure::new(key, value, format!("{saved}, as in the run that saved the state")).into());
            }
        }
        Ok(self.transfer_beginning(archive)?)
    }

    fn transfer_beginning(&mut self, archive: &mut Archive) -> Checked {
        const STATES: [Precondition; 3] = [Precondition::Clean, Precondition::Sequential, Precondition::Random];
        let mut state = STATES.iter().position(|state| *state == self.precondition).unwrap_or(0) as u32;
        archive.number(&mut state, STATES.len() as u64 - 1)?;
        self.precondition = STATES[state as usize];
        let units = u64::from(self.start) + u64::from(self.units);
        archive.number(&mut self.start, u64::from(u32::MAX) - 1)?;
        archive.number(&mut self.units, u64::from(u32::MAX) - 1 - u64::from(self.start))?;
        debug_assert!(archive.is_reading() || units < u32::MAX.into());
        archive.number(&mut self.seed, u64::MAX)
    }
}

/// Returns the figures that must be equal: keys of the profile and their values. Times and rated
/// cycles may differ.
fn figures(profile: &FlashProfile, geometry: &Geometry) -> Vec<(&'static str, String)> {
    let lower = |kind: &dyn std::fmt::Debug| format!("{kind:?}").to_lowercase();
    vec![
        ("ftl", profile.ftl.0.name.to_owned()),
        ("page_size", geometry.page_bytes.to_string()),
        ("mapping_unit", geometry.unit_bytes.to_string()),
        ("cell", lower(&profile.cell)),
        ("channels", geometry.channels.to_string()),
        ("dies_per_channel", geometry.dies_per_channel.to_string()),
        ("planes_per_die", geometry.planes_per_die.to_string()),
        ("pages_per_block", geometry.pages_per_block.to_string()),
        ("spare_factor", profile.spare_factor.to_string()),
        ("capacity", geometry.logical_bytes().0.to_string()),
        ("blocks_per_plane", geometry.blocks_per_plane.to_string()),
        ("gc", profile.gc.to_string()),
        ("gc_free_blocks", profile.gc_free_blocks.to_string()),
        ("wear_levelling", lower(&profile.wear_levelling)),
        ("slc_cache", profile.slc_cache.0.map_or_else(|| "off".to_owned(), |size| size.0.to_string())),
        ("map_cache", profile.map_cache.0.0.to_string()),
        ("log_blocks", profile.log_blocks.map_or_else(|| "all spare".to_owned(), |blocks| blocks.to_string())),
        ("chain_length_max", profile.chain_length_max.to_string()),
    ]
}
