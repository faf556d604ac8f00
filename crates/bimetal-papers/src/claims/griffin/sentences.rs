//! Sentences with a number in Griffin's sections 2, 3, 5, 6 and 7.

use super::{MAYUN, P2P, RECORDED, VM, share};
use crate::claims::{Claim, Expected, Unit, Workload, change, factor};

const fn times(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    expected: Expected,
    workload: Workload,
) -> Claim {
    Claim { name, place, says, expected, unit: Unit::Times, workload }
}

const fn rate(name: &'static str, place: &'static str, says: &'static str, paper: f64, of: &'static str) -> Claim {
    Claim {
        name,
        place,
        says,
        expected: Expected::Level(paper),
        unit: Unit::MegabytesPerSecond,
        workload: Workload::Generated(of),
    }
}

/// A latency in figure 9 that is lower than another latency. The text does not say how much lower.
const fn faster(name: &'static str, says: &'static str, workload: Workload) -> Claim {
    times(name, "6.4, figure 9", says, Expected::Below(1.0), workload)
}

pub(super) const CLAIMS: &[Claim] = &[
    // Section 2: the write-lifetime.
    times(
        "griffin-write-lifetime",
        "section 2",
        "bytes that can be written in order in a drive's life, relative to flash times erase cycles (300 TB)",
        Expected::Level(1.0),
        Workload::Generated("64 KiB writes in order"),
    ),
    times(
        "griffin-worst-case",
        "section 2",
        "random writes of 512 bytes shorten the write-lifetime of a simple layer (512 KB for each 512 bytes)",
        factor(1000.0),
        Workload::Generated("512 byte writes"),
    ),
    times(
        "griffin-halved-writes",
        "section 2",
        "saved writes lengthen the life at least in proportion, so that halved writes double it: life with a log \
         relative to that proportion",
        Expected::AtLeast(1.0),
        Workload::Public(P2P),
    ),
    // Section 3.2: the idealized cache.
    share(
        "griffin-wwwrww",
        "3.2",
        "an ideal write cache saves this share of the writes of the sequence WWWRWW",
        Expected::Level(0.60),
        Workload::Generated("WWWRWW"),
    ),
    share(
        "griffin-oracle-penalty",
        "3.2",
        "an ideal write cache serves no read from the log",
        Expected::AtMost(0.0),
        Workload::Shipped,
    ),
    times(
        "griffin-oracle-savings",
        "3.2",
        "savings of an ideal write cache relative to the greatest possible savings",
        Expected::Level(1.0),
        Workload::Shipped,
    ),
    // Section 5.2: triggers.
    Claim {
        name: "griffin-timeout-bound",
        place: "5.2",
        says: "with a timeout of 5 minutes, no write in the log is older: longest time between migrations",
        expected: Expected::AtMost(300.0),
        unit: Unit::Seconds,
        workload: Workload::None("the simulator does not count the longest time between migrations"),
    },
    share(
        "griffin-policy-penalty",
        "5.2",
        "with triggers of 5 %, 100 MB and 5 minutes, the log serves few reads: highest share of a trace",
        Expected::AtMost(0.05),
        Workload::Shipped,
    ),
    Claim {
        name: "griffin-policy-size",
        place: "5.2",
        says: "with triggers of 5 %, 100 MB and 5 minutes, little is lost with the disk: largest mean migration",
        expected: Expected::AtMost(100.0),
        unit: Unit::Megabytes,
        workload: Workload::Shipped,
    },
    // Section 6.1.2: migration policies.
    share("griffin-timeout-savings-vm", "6.1.2, figure 5a", KEEPS_MOST, Expected::AtLeast(0.80), VM),
    share("griffin-timeout-penalty-vm", "6.1.2, figure 5b", FEW_READS, Expected::AtMost(0.20), VM),
    times("griffin-threshold-savings-vm", "6.1.2, figure 6a", SIMILAR, Expected::Level(1.0), VM),
    times("griffin-timeout-sizes", "6.1.2", TIMEOUT_SIZES, factor(344.0 / 91.0), MAYUN),
    times("griffin-timeout-sizes-3h", "6.1.2", TIMEOUT_SIZES, factor(344.0 / 91.0), RECORDED),
    times("griffin-timeout-sizes-vm", "6.1.2", TIMEOUT_SIZES, factor(344.0 / 91.0), VM),
    times("griffin-threshold-sizes", "6.1.2", THRESHOLD_SIZES, factor(1823.0 / 129.0), Workload::Shipped),
    times("griffin-threshold-sizes-public", "6.1.2", THRESHOLD_SIZES, factor(1823.0 / 129.0), Workload::PublicDesktops),
    Claim {
        name: "griffin-threshold-interval",
        place: "6.1.2, figure 6b",
        says: "mean time between migrations with a read threshold of 1 %, on the trace with the shortest time",
        expected: Expected::Level(6.0),
        unit: Unit::Seconds,
        workload: Workload::Shipped,
    },
    Claim {
        name: "griffin-threshold-never",
        place: "6.1.2, figure 6b",
        says: "on some traces, a read threshold of 1 % never fires: number of such traces",
        expected: Expected::AtLeast(1.0),
        unit: Unit::Traces,
        workload: Workload::Shipped,
    },
    // Sections 6.2 and 6.3.
    Claim {
        name: "griffin-sequentiality-public",
        place: "section 1, figure 7",
        says: "more of the SSD's writes are sequential",
        expected: change(0.15),
        unit: Unit::Difference,
        workload: Workload::PublicDesktops,
    },
    times(
        "griffin-life-ideal-public",
        "6.3, figure 8",
        "fewer erases under the ideal translation layer make the SSD last longer",
        factor(2.0),
        Workload::PublicDesktops,
    ),
    times(
        "griffin-life-simple-public",
        "6.3, figure 8",
        "gain of life under the simple translation layer relative to the gain under the ideal one: larger",
        Expected::Above(1.0),
        Workload::PublicDesktops,
    ),
    // Section 6.4: drives and latencies.
    rate("griffin-rate-7200", "6.4", "sequential writes of the disk of 7200 rpm", 80.0, "64 KiB writes in order"),
    rate("griffin-rate-10k", "6.4", "sequential writes of the disk of 10,000 rpm", 118.0, "64 KiB writes in order"),
    rate("griffin-rate-mlc", "section 2, 6.4", "sequential writes of the X25-M", 70.0, "64 KiB writes in order"),
    rate("griffin-rate-slc", "6.4", "sequential writes of the X25-E", 170.0, "64 KiB writes in order"),
    rate("griffin-rate-random", "section 7", "random 4 KB writes of the X25-M (3.3 K IOPS)", 13.0, "4 KiB writes"),
    faster("griffin-fig9-10k", LOG_10K, MAYUN),
    faster("griffin-fig9-mlc", LOG_MLC, MAYUN),
    faster("griffin-fig9-slc", LOG_SLC, MAYUN),
    faster("griffin-fig9-reads", READS_7200, MAYUN),
    faster("griffin-fig9-order", SSD_LOG, MAYUN),
    faster("griffin-fig9-10k-3h", LOG_10K, RECORDED),
    faster("griffin-fig9-mlc-3h", LOG_MLC, RECORDED),
    faster("griffin-fig9-slc-3h", LOG_SLC, RECORDED),
    faster("griffin-fig9-reads-3h", READS_7200, RECORDED),
    faster("griffin-fig9-order-3h", SSD_LOG, RECORDED),
    // Section 7.
    times(
        "griffin-shared-log",
        "section 7",
        "a disk of 7200 rpm logs the random writes of several X25-M (70 to 80 MB/s for 13 MB/s each): number",
        Expected::Level(75.0 / 13.0),
        Workload::Generated("4 KiB, 64 KiB writes"),
    ),
    times(
        "griffin-eviction-savings",
        "section 7",
        "savings of migrations of blocks that the buffer cache evicts, relative to those of an ideal cache",
        Expected::Level(1.0),
        RECORDED,
    ),
    share(
        "griffin-eviction-penalty",
        "section 7",
        "with migrations of blocks that the buffer cache evicts, the log serves no read",
        Expected::AtMost(0.0),
        RECORDED,
    ),
];

/// Claims whose number was put into a profile before it was claimed, each with the fit.
pub(in crate::claims) const FITTED: [(&str, &str); 3] = [
    ("griffin-rate-10k", "the profile's outer rate is the paper's 118 MB/s"),
    ("griffin-rate-mlc", "the profile's dies were chosen for the data sheet's 70 MB/s, which the paper cites"),
    (
        "griffin-rate-slc",
        "the profile's time to program was chosen for the data sheet's 170 MB/s, which the paper cites",
    ),
];

/// Claims that follow from definitions of Bimetal, each with the definition.
pub(in crate::claims) const DEFINED: [(&str, &str); 5] = [
    ("griffin-worst-case", "the simple layer erases a block of 512 KiB for each write in place"),
    ("griffin-halved-writes", "the ideal layer erases in proportion to the pages written"),
    ("griffin-wwwrww", "the oracle of the simulated Griffin is the paper's ideal cache"),
    ("griffin-oracle-penalty", "the oracle of the simulated Griffin migrates a block before the block is read"),
    ("griffin-oracle-savings", "the simulated oracle and the analysis of a trace count the same overwrites"),
];

const KEEPS_MOST: &str = "a timeout of 900 s keeps most of the savings without migrations";
const FEW_READS: &str = "with a timeout, few reads are served by the log";
const SIMILAR: &str = "savings of a read threshold of 1 % relative to those of the timeout of 900 s";
const TIMEOUT_SIZES: &str = "mean migration with a timeout of 3600 s relative to 900 s (344 MB to 91 MB)";
const THRESHOLD_SIZES: &str = "mean migration with a read threshold of 10 % relative to 1 % (1823 MB to 129 MB)";
const LOG_10K: &str = "mean latency with a log on a 10,000 rpm disk, relative to the X25-M alone";
const LOG_MLC: &str = "mean latency with a log on an X25-M, relative to the X25-M alone";
const LOG_SLC: &str = "mean latency with a log on an X25-E, relative to the X25-M alone";
const READS_7200: &str = "mean latency of reads with a log on a 7200 rpm disk, relative to the X25-M alone";
const SSD_LOG: &str = "mean latency with a log on an X25-M relative to a log on a 7200 rpm disk";
