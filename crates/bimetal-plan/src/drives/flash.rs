//! Construction of an SSD from the rates of its data sheet.
//!
//! A data sheet has rates, and no number of dies. The rules of this module construct the smallest
//! flash that reaches the rates of a row with the times of a built-in drive's cells:
//!
//! * **Link.** A read of 4 KiB occupies the link for the inverse of the row's random rate, data and
//!   command together; a read in order moves at the row's rate. Writes have a direction of the link
//!   of their own.
//! * **Dies.** Each plane is a die of the model, because the planes of today's drives can sense
//!   independently. There are twice as many dies as random reads keep busy, and at least as many as
//!   the rate of writes needs.
//! * **Burst.** If the row's rates of writes hold for writes into single-bit cells, the drive has a
//!   cache of such cells: a quarter of its capacity. Once the cache is full, programming a page
//!   takes the time that follows from `sustained_write_mb_per_s`.
//! * **Steady.** If the row's rates of writes hold for a full drive, random writes are in-order
//!   writes that share the dies with garbage collection. The spare area follows from the nominal
//!   capacity, and the time to program a page from the rate of random writes. If this time is
//!   longer than the rate of in-order writes allows, the in-order writes determine the time, and
//!   the spare area follows from the random writes.
//!
//! Under random overwrites, greedy collection finds victims with a share z of valid units, for
//! which flash / data = ln(1/z) / (1 − z) (Desnoyers, "Analytic Models of SSD Write Performance",
//! ACM Transactions on Storage, 2014). The drive then writes 1 / (1 − z) units for each unit of the
//! host.

use bimetal_models::flash::FlashProfile;

/// Bytes of a request of the random rates.
const REQUEST: f64 = 4096.0;

/// Share of the dies that random reads at the row's rate keep busy.
const BUSY_DIES: f64 = 0.5;

/// Rate of a link for which only random rates are known, as a multiple of the bytes of these random
/// requests in a second.
const LINK_OVER_REQUESTS: f64 = 1.5;

/// Rate of all channels, as a multiple of the link's rate.
const CHANNELS_OVER_LINK: f64 = 1.5;

/// Time to program a page with one bit in each cell, in µs.
const SINGLE_BIT_PROGRAM_US: f64 = 105.0;

/// Share of the capacity that can hold data in single-bit cells. Reviews of the drives of the
/// catalogue name a quarter to a third.
const SINGLE_BIT_SHARE: f64 = 0.25;

/// Rows of pages of each die for which the write buffer has room. The second number holds with
/// garbage collection, which makes some dies slower than others for a while.
const BUFFERED_ROWS: f64 = 4.0;
const BUFFERED_ROWS_COLLECTING: f64 = 8.0;

/// Blocks of a die that garbage collection keeps out of use: the collector's open block, the host's
/// open block, and two free blocks.
pub(super) const COLLECTORS_BLOCKS: f64 = 3.0;

/// Least number of blocks of a die of a model.
const BLOCKS_OF_A_DIE: f64 = 256.0;

/// Least spare factor of a model: garbage collection needs room.
const SPARE_MIN: f64 = 0.02;

/// Figures of a row from which its flash is made. A figure that the row does not have is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) capacity_bytes: f64,
    pub(super) mapping_unit_bytes: f64,
    /// Set if the rates of writes hold for writes into a cache of single-bit cells.
    pub(super) is_burst: bool,
    pub(super) sequential_read_mb_per_s: Option<f64>,
    pub(super) sequential_write_mb_per_s: Option<f64>,
    pub(super) sustained_write_mb_per_s: Option<f64>,
    pub(super) random_read_iops: Option<f64>,
    pub(super) random_write_iops: Option<f64>,
    /// Time of a read and of a write of 4 KiB, one after the other.
    pub(super) read_us: Option<f64>,
    pub(super) write_us: Option<f64>,
}

impl Rates {
    /// Returns the flash of the drive, as a multiple of its capacity.
    fn nominal(&self) -> f64 {
        nominal_flash(self.capacity_bytes) / self.capacity_bytes
    }
}

/// Figures of the flash that reaches the rates of a row.
#[derive(Clone, Debug)]
pub(super) struct Construction {
    pub(super) dies_per_channel: u32,
    pub(super) page_bytes: f64,
    pub(super) write_buffer_bytes: f64,
    /// Size of the cache of single-bit cells, and the time to program a page of this cache.
    pub(super) single_bit_cache: Option<(f64, f64)>,
    /// Figures with the names of a profile's keys.
    pub(super) figures: Vec<(&'static str, f64)>,
}

/// Returns the construction of a row's flash, with the cells and the controller of `template`.
pub(super) fn construct(rates: &Rates, template: &FlashProfile) -> Construction {
    let requests = rates.random_read_iops.unwrap_or(0.0).max(rates.random_write_iops.unwrap_or(0.0)) * 1e-6;
    let least = template.link_mb_per_s.max(LINK_OVER_REQUESTS * requests * REQUEST);
    let link = rates.sequential_read_mb_per_s.unwrap_or(least);
    let command_us = rates.random_read_iops.map_or(template.command_us, |iops| beside_data_us(iops, link));
    let page = rates.mapping_unit_bytes.max(template.page_size.0.0 as f64);
    let channels = f64::from(template.channels);
    // A unit crosses its channel as a whole, also for a smaller request; what collection moves
    // crosses it twice.
    let moved = if rates.is_burst { 1.0 } else { 2.0 / (1.0 - victim_share(rates.nominal())) };
    let written = rates.random_write_iops.unwrap_or(0.0) * 1e-6 * moved;
    let through = link.max(requests.max(written) * rates.mapping_unit_bytes);
    let channel = template.channel_mb_per_s.max(CHANNELS_OVER_LINK * through / channels);
    let unit_us = rates.mapping_unit_bytes / channel;
    let (sense_us, read_overhead_us) = match rates.read_us {
        None => (template.read_us, template.read_overhead_us),
        Some(us) => {
            let in_cells = (us - unit_us - command_us - REQUEST / link).max(1.0);
            let sense = template.read_us.min(in_cells);
            (sense, in_cells - sense)
        }
    };
    let cells = Cells { page, page_us: page / channel, sense_us, unit_us };
    let program_us = if rates.is_burst { SINGLE_BIT_PROGRAM_US } else { template.program_us };
    let for_reads = rates.random_read_iops.unwrap_or(0.0) * (sense_us + unit_us) * 1e-6 / BUSY_DIES;
    let for_writes = rates.sequential_write_mb_per_s.unwrap_or(0.0) * (program_us + cells.page_us) / page;
    let own = f64::from(template.dies_per_channel * template.planes_per_die);
    let dies_per_channel = (for_reads.max(for_writes) / channels).max(own).ceil().min(256.0);
    let dies = channels * dies_per_channel;
    let mut figures = vec![
        ("link_mb_per_s", link),
        ("command_us", command_us),
        ("channel_mb_per_s", channel),
        ("read_us", sense_us),
        ("read_overhead_us", read_overhead_us),
    ];
    let writes = match rates.is_burst {
        true => burst(rates, template, &cells, dies),
        false => steady(rates, template, &cells, dies),
    };
    figures.push(("program_us", writes.program_us));
    figures.push(("spare_factor", writes.spare_factor));
    let write_link = writes.link_mb_per_s.unwrap_or(link);
    figures.extend(writes.link_mb_per_s.map(|rate| ("write_link_mb_per_s", rate)));
    let random = rates.random_write_iops.filter(|_| rates.is_burst);
    let write_command_us = random.map(|iops| beside_data_us(iops, write_link));
    figures.extend(write_command_us.map(|us| ("write_command_us", us)));
    if let Some(us) = rates.write_us {
        let on_link = write_command_us.unwrap_or(command_us) + REQUEST / write_link;
        figures.push(("write_overhead_us", (us - on_link).max(0.0)));
    }
    let rows = if rates.is_burst { BUFFERED_ROWS } else { BUFFERED_ROWS_COLLECTING };
    let buffered = rows * dies * page;
    Construction {
        dies_per_channel: dies_per_channel as u32,
        page_bytes: page,
        write_buffer_bytes: template.write_buffer.0.map_or(buffered, |own| buffered.max(own.0 as f64)),
        single_bit_cache: rates.is_burst.then_some((SINGLE_BIT_SHARE * rates.capacity_bytes, SINGLE_BIT_PROGRAM_US)),
        figures,
    }
}

/// Returns the time of a command without the time of its data, at `iops` requests a second.
fn beside_data_us(iops: f64, link_mb_per_s: f64) -> f64 {
    (1e6 / iops - REQUEST / link_mb_per_s).max(0.0)
}

/// Pages of a die, and their times.
struct Cells {
    page: f64,
    /// Time in which a page crosses its channel.
    page_us: f64,
    sense_us: f64,
    /// Time in which a mapping unit crosses its channel.
    unit_us: f64,
}

impl Cells {
    /// Returns the time to program a page with which `dies` dies take `mb_per_s` times 10^6 bytes a
    /// second.
    fn program_us(&self, dies: f64, mb_per_s: f64) -> f64 {
        (dies * self.page / mb_per_s - self.page_us).max(1.0)
    }
}

/// Figures on which the rates of writes depend.
struct Writes {
    program_us: f64,
    spare_factor: f64,
    /// Rate of the link, if the link limits writes.
    link_mb_per_s: Option<f64>,
}

fn burst(rates: &Rates, template: &FlashProfile, cells: &Cells, dies: f64) -> Writes {
    Writes {
        program_us: rates.sustained_write_mb_per_s.map_or(template.program_us, |rate| cells.program_us(dies, rate)),
        spare_factor: spare_of(rates.nominal()),
        link_mb_per_s: rates.sequential_write_mb_per_s,
    }
}

fn steady(rates: &Rates, template: &FlashProfile, cells: &Cells, dies: f64) -> Writes {
    let nominal = rates.nominal();
    let mut pages = f64::from(template.pages_per_block);
    let flash_pages = nominal * rates.capacity_bytes / (dies * cells.page);
    // The model halves blocks until a die has enough of them.
    while flash_pages / pages < BLOCKS_OF_A_DIE && pages > 1.0 {
        pages /= 2.0;
    }
    let blocks = flash_pages / pages;
    let used = 1.0 - COLLECTORS_BLOCKS / blocks;
    let in_order = rates.sequential_write_mb_per_s;
    let by_order = in_order.map(|rate| cells.program_us(dies, rate));
    let own = Writes {
        program_us: by_order.unwrap_or(template.program_us),
        spare_factor: spare_of(nominal),
        link_mb_per_s: None,
    };
    let Some(iops) = rates.random_write_iops else { return own };
    let written = iops * 1e-6 * rates.mapping_unit_bytes;
    // A unit that is written in part is sensed first.
    let in_part = if rates.mapping_unit_bytes > REQUEST { cells.sense_us + cells.unit_us } else { 0.0 };
    let dies = dies - iops * 1e-6 * in_part;
    let units = cells.page / rates.mapping_unit_bytes;
    // Time that collection adds to each page that is programmed, with victims of which this share
    // is valid: pages are sensed that hold a valid unit, some twice; a copy leaves the die and
    // returns.
    let collection_us = |share: f64| {
        let sensed = 1.0 - (1.0 - share).powf(units) + (1.0 - share) * (1.0 - 1.0 / units);
        sensed * cells.sense_us + (1.0 + share) * cells.page_us + template.erase_us / pages
    };
    let share = victim_share(nominal * used);
    let by_random = dies * cells.page * (1.0 - share) / written - collection_us(share);
    match by_order {
        Some(by_order) if by_random > by_order => {
            let mut share = share;
            for _ in 0..8 {
                let amplification = dies * cells.page / (written * (by_order + collection_us(share)));
                share = 1.0 - 1.0 / amplification.max(1.01);
            }
            Writes { spare_factor: spare_of(flash_of(share) / used), ..own }
        }
        _ => Writes { program_us: by_random.max(1.0), link_mb_per_s: in_order, ..own },
    }
}

/// Returns the bytes of flash of a drive that is sold as `capacity` bytes: dies come in powers of
/// two.
fn nominal_flash(capacity: f64) -> f64 {
    2.0_f64.powf(capacity.log2().ceil())
}

/// Returns the spare area of a drive as a share of its flash, which is `flash` times the drive's
/// capacity.
fn spare_of(flash: f64) -> f64 {
    (1.0 - 1.0 / flash).max(SPARE_MIN)
}

/// Returns the flash of a drive, as a multiple of its data, whose victims have this share of valid
/// units.
fn flash_of(share: f64) -> f64 {
    (1.0 / share).ln() / (1.0 - share)
}

/// Returns the share of valid units in the victims of greedy collection on a drive whose flash is
/// `flash` times its data.
fn victim_share(flash: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let share = (low + high) / 2.0;
        // The more valid units in victims, the less flash.
        if flash_of(share) > flash { low = share } else { high = share }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Write amplification by the spare factor, from simulations of greedy collection.
    #[test]
    fn victims_hold_what_greedy_theory_says() {
        for (spare, amplification) in [(0.07, 7.2), (0.25, 2.2)] {
            let found = 1.0 / (1.0 - victim_share(1.0 / (1.0 - spare)));
            assert!((found / amplification - 1.0).abs() < 0.05, "{spare}: {found}");
        }
    }

    #[test]
    fn flash_of_a_drive_is_the_next_power_of_two() {
        let gib = f64::from(1 << 30);
        for (sold, flash) in [(960.2e9, 1024.0), (1000.2e9, 1024.0), (800.2e9, 1024.0), (240.1e9, 256.0)] {
            assert_eq!(nominal_flash(sold) / gib, flash, "{sold}");
        }
    }
}
