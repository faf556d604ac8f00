//! The hybrid hard disk of Konanki's thesis (*An Exploration of Hybrid Hard Disk Designs*), configuration 2: home on the
//! disk, flash used exclusively "to offload write requests" (section 3.3), since the system's own memory caches reads.
//!
//! *Read* (figure 4.8): each block from flash if it is there, else from the disk; a read never puts anything on flash.
//! *Write* (figure 4.9): a request that reaches the threshold goes to the disk if none of its pages is on flash;
//! any other goes to flash whole, page by page, and a page that finds no free one first flushes. Flash so always has the
//! newest content of what it holds. *Flush* (section 3.3): on demand, everything: all dirty blocks go home and
//! the flash is empty afterwards, which puts the next flush off as long as possible.
//!
//! Our choice: the thesis puts the threshold "slightly less than the maximum request size supported by the device"; 512 KiB
//! is the largest request of Linux on SATA. A page is free when its slot is, so the threshold of figure 4.9 is one.

use crate::block::BlockRun;
use crate::block_map;
use crate::layout::{Layout, Role, SlotKind};
use crate::scheme::{Access, Holds, Placement, Reason, Scheme, SchemeInfo, View, Work};
use crate::settings::{Kind, MOVE_RATE, Parameter, SettingError, Settings};
use crate::units::Bytes;

/// The scheme.
pub const INFO: SchemeInfo = SchemeInfo {
    name: "hybrid-disk",
    summary: "flash inside a disk takes small writes; flushed home when it is full",
    source: "Konanki (thesis), sections 3.3 and 4.2",
    members: &[(Role::Hdd, Holds::Home), (Role::Ssd, Holds::Cache)],
    parameters: &[
        Parameter {
            name: "write_threshold",
            kind: Kind::SizeOrOff,
            default: "512KiB",
            doc: "a write of at least this size is large and goes to the disk, unless a page of it is on flash (3.3)",
        },
        Parameter {
            name: "flush",
            kind: Kind::Choice(&["full"]),
            default: "full",
            doc: "what a write that finds no free page flushes: everything (3.3, on demand)",
        },
        Parameter {
            name: "victim",
            kind: Kind::Choice(&["lru"]),
            default: "lru",
            doc: "which pages a partial flush takes; a full one takes all (3.3)",
        },
        Parameter {
            name: "replacement",
            kind: Kind::Choice(&["lru"]),
            default: "lru",
            doc: "which page is given up first; a full flush gives up all at once",
        },
        Parameter {
            name: "admission",
            kind: Kind::Choice(&["all"]),
            default: "all",
            doc: "which writes below the threshold go to flash",
        },
        MOVE_RATE,
    ],
    worst_crash: "what was not flushed; each block whole, old or new",
    ssd_loss: "every write since the last flush of the flash",
    hdd_loss: "all data",
    memory_bytes_per_block: block_map::BYTES_PER_BLOCK,
    layout: |_, request| {
        let home = request.concatenated(&[request.only(Role::Hdd)?])?;
        Ok(request.with_slots(home, request.only(Role::Ssd)?, SlotKind::Cache)?)
    },
    build,
};

struct HybridDisk {
    write_threshold: Bytes,
}

fn build(settings: &Settings, _layout: &Layout) -> Result<Box<dyn Scheme>, SettingError> {
    Ok(Box::new(HybridDisk { write_threshold: settings.size("write_threshold").unwrap_or(Bytes::MAX) }))
}

impl Scheme for HybridDisk {
    fn set(&mut self, key: &str, settings: &Settings) -> Result<bool, SettingError> {
        let live = key == "write_threshold";
        if live {
            self.write_threshold = settings.size(key).unwrap_or(Bytes::MAX);
        }
        Ok(live)
    }

    fn place_write(&mut self, view: &View, access: &Access, rest: BlockRun) -> (Placement, u64) {
        if !view.slots_online() {
            return (Placement::Home(Some(Reason::MEMBER_GONE)), rest.count);
        }
        let large = access.sectors.len.bytes() >= self.write_threshold;
        if large && access.blocks.blocks().all(|block| view.map.get(block).is_none()) {
            return (Placement::Home(Some(Reason::LARGE)), rest.count);
        }
        match view.free_slots {
            0 => (Placement::Wait, rest.count),
            free => (Placement::Slot, rest.count.min(free)),
        }
    }

    fn work(&mut self, view: &View) -> Work {
        // Full is full of pages that can be flushed: those on their way to flash, and those given up, are waited for.
        let full = view.waiting_for_slots > 0 && view.map.len() == u64::from(view.map.slots());
        if full && !view.moving { Work::MigrateAll } else { Work::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::OpKind;
    use crate::testing::Bench;

    #[test]
    fn a_small_write_goes_to_flash_and_a_large_one_to_the_disk() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        bench.request(OpKind::Write, 0, 8);
        assert_eq!(bench.take_log(), ["ssd write 8"]);
        bench.request(OpKind::Write, 8000, 1024);
        assert_eq!(bench.take_log(), ["hdd write 1024"]);
        bench.request(OpKind::Write, 16000, 1016);
        assert_eq!(bench.take_log(), ["ssd write 1016"], "just below the threshold");
    }

    #[test]
    fn a_large_write_of_which_a_page_is_on_flash_goes_to_flash_whole() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        bench.request(OpKind::Write, 8016, 8);
        bench.take_log();
        bench.request(OpKind::Write, 8000, 1024);
        assert_eq!(bench.take_log(), ["ssd write 1024"]);
    }

    #[test]
    fn a_read_never_promotes() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        for _ in 0..2 {
            bench.request(OpKind::Read, 0, 8);
            assert_eq!(bench.take_log(), ["hdd read 8"]);
        }
    }

    #[test]
    fn a_write_that_finds_no_free_page_flushes_everything_and_empties_the_flash() {
        let mut bench = Bench::new("hybrid-disk", &[]);
        let slots = u64::from(bench.volume.view().map.slots());
        (0..slots).for_each(|block| bench.request(OpKind::Write, block * 16, 8));
        assert_eq!(bench.volume.view().free_slots, 0);
        assert_eq!(bench.volume.statistics().migrations.count, 0);
        bench.request(OpKind::Write, slots * 16, 8);
        assert_eq!(bench.volume.statistics().migrations.count, 1);
        assert_eq!(bench.volume.statistics().migrations.blocks, slots);
        assert_eq!(bench.volume.view().map.len(), 1, "only the write that found no page is on flash");
    }
}
