//! Payloads of the fault tester. Instead of bytes, each sector names the request that wrote it and
//! the address where it belongs.
//!
//! Metadata keeps its real bytes, so that pages can be decoded. Consecutive sectors are stored as
//! runs: a write of several MiB is one run.

use std::sync::Arc;

use bimetal_core::operation::OpKind;
use bimetal_core::payload::Payload;
use bimetal_core::units::{SECTOR_BYTES, Sectors};

use crate::case::Arrival;
use crate::sabotage;

/// Content of a sector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Sector {
    /// Zeroes: never written, or written as zeroes.
    #[default]
    Zero,
    /// Data that a request wrote.
    Data {
        /// The number of the request.
        request: u32,
        /// Sector at which the data belong, in the volume's flat address space.
        sector: u32,
    },
    /// Content that has rotted, so that it differs from the written content.
    Rotten(u32),
    /// Metadata of the engine.
    Metadata {
        /// All bytes of metadata that were written together.
        bytes: Arc<Vec<u8>>,
        /// Index of this sector among the sectors of `bytes`.
        at: u32,
    },
}

impl Sector {
    /// Returns the content of the sector that lies `by` sectors further on in the same run.
    fn further(&self, by: u32) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::Data { request, sector } => Self::Data { request: *request, sector: sector + by },
            Self::Rotten(number) => Self::Rotten(number + by),
            Self::Metadata { bytes, at } => Self::Metadata { bytes: Arc::clone(bytes), at: at + by },
        }
    }

    /// Returns the content of a sector of metadata.
    pub fn metadata(&self) -> Option<&[u8]> {
        let Self::Metadata { bytes, at } = self else { return None };
        let start = *at as usize * SECTOR_BYTES as usize;
        Some(&bytes[start..start + SECTOR_BYTES as usize])
    }

    fn checksum(&self, before: u32) -> u32 {
        let (kind, first, second) = match self {
            Self::Zero => (0, 0, 0),
            Self::Data { request, sector } => (1, *request, *sector),
            Self::Rotten(number) => (2, *number, 0),
            Self::Metadata { .. } => return crc32c::crc32c_append(before, self.metadata().unwrap_or_default()),
        };
        let mut encoded = [kind; 9];
        encoded[1..5].copy_from_slice(&first.to_le_bytes());
        encoded[5..].copy_from_slice(&second.to_le_bytes());
        crc32c::crc32c_append(before, &encoded)
    }
}

/// `len` sectors that continue `first`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    first: Sector,
    len: u32,
}

/// The content of a range of sectors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tags {
    runs: Vec<Run>,
    sectors: u64,
}

impl Tags {
    /// Returns the content that request number `request` writes to `sectors` sectors from `start`
    /// on.
    pub fn written(request: u32, start: u64, sectors: u64) -> Self {
        let mut tags = Self::default();
        tags.push(Sector::Data { request, sector: start as u32 }, sectors as u32);
        tags
    }

    /// Returns the payload of an arriving request; `number` is `None` for a request outside its
    /// unit.
    pub(crate) fn of_arrival(arrival: &Arrival, number: Option<u32>) -> Self {
        let Arrival { kind, range, flat, .. } = arrival;
        match (kind, number) {
            (OpKind::Write, Some(number)) => Self::written(number, flat.map_or(0, |flat| flat.start.0), range.len.0),
            (OpKind::Write, None) => Self::zeroes(range.len),
            _ => Self::empty(),
        }
    }

    /// Returns the number of sectors.
    pub(crate) fn len(&self) -> u64 {
        self.sectors
    }

    /// Appends `len` sectors that continue `first`.
    pub fn push(&mut self, first: Sector, len: u32) {
        self.sectors += u64::from(len);
        match self.runs.last_mut() {
            Some(last) if last.first.further(last.len) == first => last.len += len,
            _ if len == 0 => {}
            _ => self.runs.push(Run { first, len }),
        }
    }

    /// Returns the runs: the first sector, and the number of sectors.
    pub fn runs(&self) -> impl Iterator<Item = (&Sector, u32)> {
        self.runs.iter().map(|run| (&run.first, run.len))
    }

    /// Returns the sector at index `at`; zeroes beyond the end.
    pub fn at(&self, at: u64) -> Sector {
        let mut left = at;
        for run in &self.runs {
            if left < u64::from(run.len) {
                return run.first.further(left as u32);
            }
            left -= u64::from(run.len);
        }
        Sector::Zero
    }

    /// Returns each sector of the payload, in order.
    pub fn iter(&self) -> impl Iterator<Item = Sector> {
        self.runs.iter().flat_map(|run| (0..run.len).map(|by| run.first.further(by)))
    }
}

impl FromIterator<Sector> for Tags {
    fn from_iter<I: IntoIterator<Item = Sector>>(sectors: I) -> Self {
        let mut tags = Self::default();
        sectors.into_iter().for_each(|sector| tags.push(sector, 1));
        tags
    }
}

impl Payload for Tags {
    const CARRIES_DATA: bool = true;

    fn empty() -> Self {
        Self::default()
    }

    fn zeroes(len: Sectors) -> Self {
        let mut tags = Self::default();
        tags.push(Sector::Zero, len.0 as u32);
        tags
    }

    fn slice(&self, start: Sectors, len: Sectors) -> Self {
        assert!(start.0 + len.0 <= self.sectors, "{len:?} from {start:?} on of {} sectors", self.sectors);
        let mut tags = Self::default();
        let mut skip = start.0 as u32;
        let mut left = len.0 as u32;
        for run in &self.runs {
            if skip >= run.len {
                skip -= run.len;
                continue;
            }
            let taken = left.min(run.len - skip);
            tags.push(run.first.further(skip), taken);
            left -= taken;
            skip = 0;
            if left == 0 {
                break;
            }
        }
        tags
    }

    fn join(&mut self, tail: Self) {
        tail.runs.into_iter().for_each(|run| self.push(run.first, run.len));
    }

    fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    fn checksum(&self) -> u32 {
        if sabotage::checksums_pass() {
            return 0;
        }
        self.iter().fold(0, |before, sector| sector.checksum(before))
    }

    fn from_metadata(bytes: &[u8]) -> Self {
        assert!(bytes.len().is_multiple_of(SECTOR_BYTES as usize), "{} bytes are no whole sectors", bytes.len());
        let mut tags = Self::default();
        let sectors = bytes.len() / SECTOR_BYTES as usize;
        tags.push(Sector::Metadata { bytes: Arc::new(bytes.to_vec()), at: 0 }, sectors as u32);
        tags
    }

    fn to_metadata(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((self.sectors * SECTOR_BYTES) as usize);
        for sector in self.iter() {
            match sector.metadata() {
                Some(metadata) => bytes.extend_from_slice(metadata),
                None if sector == Sector::Zero => bytes.extend([0; SECTOR_BYTES as usize]),
                // Content of a request, or rot.
                None => bytes.extend([0xff; SECTOR_BYTES as usize]),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_rejoined_payload_keeps_content_and_checksum() {
        let mut whole = Tags::written(3, 100, 10);
        whole.join(Tags::zeroes(Sectors(4)));
        whole.join(Tags::from_metadata(&[7; 1024]));
        for cut in 0..=16 {
            let mut joined = whole.slice(Sectors(0), Sectors(cut));
            joined.join(whole.slice(Sectors(cut), Sectors(16 - cut)));
            assert_eq!(joined, whole);
            assert_eq!(joined.checksum(), whole.checksum());
        }
        assert_eq!(
            whole.slice(Sectors(9), Sectors(2)).iter().collect::<Vec<_>>(),
            [Sector::Data { request: 3, sector: 109 }, Sector::Zero]
        );
    }

    #[test]
    fn the_checksum_knows_who_wrote_a_sector_and_where_it_belongs() {
        let one = Tags::written(3, 100, 8).checksum();
        assert_ne!(one, Tags::written(4, 100, 8).checksum());
        assert_ne!(one, Tags::written(3, 101, 8).checksum());
        assert_ne!(Tags::from_metadata(&[1; 512]).checksum(), Tags::from_metadata(&[2; 512]).checksum());
    }
}
