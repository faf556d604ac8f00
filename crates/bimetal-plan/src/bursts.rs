//! Bursts of writes: a lower bound on the writes of a burst that are late on the drives of an
//! option under any scheme.
//!
//! A write is done once a drive, or a log's bounded memory, has taken it. A flash drive takes no
//! more than crosses its link, and no more than its buffer holds and its dies program in the same
//! time. A disk takes the data that its cache holds and the data that passes under its heads.
//! Writes that arrive within a window must fit into the drives by the window's end plus the limit.
//! The largest number of writes in time is the number that fits in this amount if the smallest
//! writes are served first. The remaining writes are late for certain. A block that is written
//! again within a window counts once, since a log may overwrite it in place. Windows do not
//! overlap, so the late writes of all windows add up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bimetal_core::block::BlockSize;
use bimetal_core::operation::OpKind;
use bimetal_core::units::{Nanoseconds, SECTOR_BYTES, Sectors};
use bimetal_core::volume::LOG_BLOCKS_IN_MEMORY_MAX;
use bimetal_models::flash::FlashProfile;
use bimetal_models::hdd::layout::Layout;
use bimetal_models::hdd::profile::HddProfile;
use bimetal_models::profile::{Body, Profile};
use bimetal_trace::Request;

use crate::evaluate::Load;
use crate::grid::Candidate;

/// Lengths of the windows of time in which writes are counted, as multiples of the budget's limit:
/// 0 for bursts that arrive at once, and longer windows.
const WINDOWS: [u64; 4] = [0, 1, 4, 16];

/// Number of positions on a disk at which its longest track is sought.
const PLACES: u64 = 256;

/// Safety factor for inexact figures, such as a page in flight and rounded rates.
const MARGIN: f64 = 1.05;

/// Intake of a drive: bytes at once, then bytes per nanosecond. The link limits the intake of
/// flash.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Intake {
    at_once: f64,
    per_ns: f64,
    link_per_ns: f64,
}

impl Intake {
    fn within(&self, time: Nanoseconds) -> f64 {
        let time = time.0 as f64;
        (self.at_once + self.per_ns * time).min(self.link_per_ns * time) * MARGIN
    }

    /// Returns the intake of `profile` with `size` sectors; `None` if the drive cannot be built.
    fn of(profile: &Profile, size: Sectors) -> Option<Self> {
        match &profile.body {
            Body::Flash(flash) => Self::of_flash(flash, profile.capacity, size),
            Body::Hdd(hdd) => Self::of_disk(hdd, profile.capacity, size),
            Body::Cloud(_) => None,
        }
    }

    fn of_flash(flash: &FlashProfile, capacity: Sectors, size: Sectors) -> Option<Self> {
        let geometry = flash.geometry(capacity, Some(size)).ok()?;
        let row = f64::from(geometry.units_per_row()) * f64::from(geometry.unit_bytes);
        let rows_at_once = f64::from(geometry.channels * geometry.dies_per_channel) * row;
        let buffer = flash.write_buffer.0.map_or(0.0, |bytes| bytes.0 as f64);
        Some(Self {
            at_once: buffer + 2.0 * rows_at_once,
            per_ns: rows_at_once / (flash.fastest_program_us() * 1e3).max(1.0),
            link_per_ns: flash.write_link_mb_per_s.unwrap_or(flash.link_mb_per_s) * 1e-3,
        })
    }

    fn of_disk(hdd: &HddProfile, capacity: Sectors, size: Sectors) -> Option<Self> {
        let layout = Layout::new(hdd, capacity, size).ok()?;
        let track = |at: u64| layout.sectors_per_track(&layout.place(layout.sectors().0 / PLACES * at));
        let longest = (0..PLACES).map(track).max()?;
        let (track_bytes, actuators) = (f64::from(longest) * SECTOR_BYTES as f64, f64::from(hdd.actuators));
        Some(Self {
            at_once: hdd.cache.0.0 as f64 + actuators * track_bytes,
            per_ns: actuators * track_bytes * hdd.rpm / 60e9,
            link_per_ns: f64::INFINITY,
        })
    }
}

/// Model of a drive and its size in bytes.
type Drive = (String, u64);

/// A write of the workload.
#[derive(Clone, Copy)]
struct Write {
    arrival: Nanoseconds,
    device: u32,
    /// Blocks that the write covers wholly: the first block, and the block after the last.
    blocks: (u64, u64),
    measured: bool,
}

/// Writes that arrive within a window of time, and their bytes.
struct Burst {
    writes: Range<usize>,
    bytes: f64,
}

/// Bursts within windows of one length, which is a multiple of a limit.
struct Windows {
    length: Nanoseconds,
    bursts: Vec<Burst>,
}

/// Writes of a workload, against which options are checked.
pub(crate) struct Bursts {
    writes: Vec<Write>,
    block: BlockSize,
    /// Intake of each drive among the options.
    drives: BTreeMap<Drive, Option<Intake>>,
    /// Windows of each limit. A limit has few bursts, and a search many options.
    windows: Mutex<HashMap<Nanoseconds, Arc<Vec<Windows>>>>,
    /// Number of late writes for each choice of drives and each limit. The number is equal under
    /// every scheme.
    known: Mutex<HashMap<(Vec<Drive>, Nanoseconds), u64>>,
}

impl Bursts {
    /// Collects the writes of `load`, played faster by `speedup`, and the intakes of the drives of
    /// `candidates`.
    pub(crate) fn of(load: &Load, block: BlockSize, speedup: f64, candidates: &[Candidate]) -> Self {
        let sectors = block.sectors();
        let mut now = Nanoseconds::ZERO;
        let write = |(number, request): (usize, &Request)| {
            // A request recorded out of order is issued in its turn.
            now = now.max(Nanoseconds((request.arrival.0 as f64 / speedup).round() as u64));
            let writes = request.kind == OpKind::Write && !request.range.is_empty();
            writes.then(|| Write {
                arrival: now,
                device: request.device,
                blocks: (request.range.start.0.div_ceil(sectors), request.range.end().0 / sectors),
                measured: number as u64 >= load.warmup_requests,
            })
        };
        let writes = load.requests.iter().enumerate().filter_map(write).collect();
        let mut drives = BTreeMap::new();
        for (_, offer) in candidates.iter().flat_map(|candidate| &candidate.drives) {
            drives.entry((offer.model.clone(), offer.size.0)).or_insert_with(|| {
                Profile::load(&offer.model).ok().and_then(|profile| Intake::of(&profile, offer.size.sectors()))
            });
        }
        Self { writes, block, drives, windows: Mutex::default(), known: Mutex::default() }
    }

    /// Returns the number of measured writes that certainly take longer than `limit` with the
    /// drives of `candidate`.
    pub(crate) fn late(&self, candidate: &Candidate, limit: Nanoseconds) -> u64 {
        let drives: Vec<Drive> =
            candidate.drives.iter().map(|(_, offer)| (offer.model.clone(), offer.size.0)).collect();
        let intakes: Option<Vec<Intake>> =
            drives.iter().map(|drive| self.drives.get(drive).copied().flatten()).collect();
        let Some(intakes) = intakes else { return 0 };
        let key = (drives, limit);
        if let Some(known) = self.known.lock().expect("no thread panics while it holds the lock").get(&key) {
            return *known;
        }
        let late = |windows: &Windows| {
            let time = windows.length.saturating_add(limit);
            self.late_in(windows, self.memory() + intakes.iter().map(|intake| intake.within(time)).sum::<f64>())
        };
        let late = self.windows_of(limit).iter().map(late).max().unwrap_or(0);
        self.known.lock().expect("no thread panics while it holds the lock").insert(key, late);
        late
    }

    /// Returns the bytes that a scheme's log holds in memory.
    fn memory(&self) -> f64 {
        (LOG_BLOCKS_IN_MEMORY_MAX * self.block.bytes().0) as f64
    }

    /// Returns the windows of `limit`, with the bursts that do not fit into a log's memory alone.
    fn windows_of(&self, limit: Nanoseconds) -> Arc<Vec<Windows>> {
        let mut known = self.windows.lock().expect("no thread panics while it holds the lock");
        let find = || {
            let lengths = WINDOWS.into_iter().map(|limits| Nanoseconds(limits.saturating_mul(limit.0)));
            Arc::new(lengths.map(|length| Windows { length, bursts: self.bursts_within(length) }).collect())
        };
        known.entry(limit).or_insert_with(find).clone()
    }

    fn bursts_within(&self, length: Nanoseconds) -> Vec<Burst> {
        let (mut bursts, mut begin) = (Vec::new(), 0);
        while let Some(first) = self.writes.get(begin) {
            let end = first.arrival.saturating_add(length);
            // Requests are in order of arrival.
            let own = self.writes[begin..].iter().take_while(|write| write.arrival <= end);
            let (count, blocks) = own.fold((0, 0), |(count, blocks), write| {
                (count + 1, blocks + write.blocks.1.saturating_sub(write.blocks.0))
            });
            let bytes = (blocks * self.block.bytes().0) as f64;
            if bytes > self.memory() {
                bursts.push(Burst { writes: begin..begin + count, bytes });
            }
            begin += count;
        }
        bursts
    }

    /// Returns the number of late writes in `windows`, in each of which `room` bytes are taken.
    fn late_in(&self, windows: &Windows, room: f64) -> u64 {
        let too_large = windows.bursts.iter().filter(|burst| burst.bytes > room);
        too_large.map(|burst| late_of(&self.writes[burst.writes.clone()], self.block.bytes().0, room)).sum()
    }
}

/// Returns the number of measured `writes` that do not fit into `room` bytes when the smallest
/// writes are served first.
fn late_of(writes: &[Write], block: u64, room: f64) -> u64 {
    let mut seen: HashSet<(u32, u64)> = HashSet::new();
    let mut sizes: Vec<u64> = Vec::new();
    for write in writes {
        let fresh = (write.blocks.0..write.blocks.1).filter(|block| seen.insert((write.device, *block))).count() as u64;
        if write.measured {
            sizes.push(fresh * block);
        }
    }
    sizes.sort_unstable();
    let mut left = room;
    let in_time = sizes.iter().take_while(|size| {
        left -= **size as f64;
        left >= 0.0
    });
    sizes.len() as u64 - in_time.count() as u64
}
