//! Claims of the Griffin paper: the summary in section 1, tables 1 and 3, figures 5 to 9 and
//! section 7. `tables` has the other cells of the tables, `sentences` the other sentences with a
//! number.

mod sentences;
mod tables;

use super::{Claim, Expected, Unit, Workload, change, factor, joined};

/// Public trace of a desktop over 1.8 hours, the longest of the public desktops.
const MAYUN: Workload = Workload::Public("diskmon-mayun.tsv.xz");

/// Public traces of two other desktops, of 20 minutes and more.
pub(crate) const P2P: &str = "diskmon-p2pdownload.tsv.xz";
pub(crate) const SYS1: &str = "diskmon-sys1.tsv.xz";

/// Recorded trace of a desktop over three hours.
const RECORDED: Workload = Workload::Recorded("desktop");

/// Recorded trace of a small server with a source tree.
const OFFICE_SERVER: Workload = Workload::Recorded("office-server");

/// Public trace of a virtual machine over two hours. It stands for a server over hours, since the
/// shipped servers last at most 251 s.
pub(crate) const CLOUD: &str = "cloudPhysicsIO.vscsi.xz";
const VM: Workload = Workload::Public(CLOUD);

/// A claim about a share.
const fn share(
    name: &'static str,
    place: &'static str,
    says: &'static str,
    expected: Expected,
    workload: Workload,
) -> Claim {
    Claim { name, place, says, expected, unit: Unit::Share, workload }
}

pub(super) const CLAIMS: &[Claim] = &joined::<{ FIRST.len() + tables::CLAIMS.len() + sentences::CLAIMS.len() }>(&[
    FIRST,
    tables::CLAIMS,
    sentences::CLAIMS,
]);

pub(super) use sentences::{DEFINED, FITTED};

const FIRST: &[Claim] = &[
    Claim {
        name: "griffin-ideal-savings-servers",
        place: "table 1",
        says: "an ideal write cache saves this share of the writes on servers",
        expected: Expected::Level(0.5783),
        unit: Unit::Share,
        workload: Workload::Servers,
    },
    Claim {
        name: "griffin-raw-900s",
        place: "4.4, table 3",
        says: "share of the reads after a write within 900 s of the write, on desktops",
        expected: Expected::Level(0.30),
        unit: Unit::Share,
        workload: MAYUN,
    },
    Claim {
        name: "griffin-timeout-savings",
        place: "6.1.2, figure 5a",
        says: "a timeout of 900 s keeps most of the savings without migrations",
        expected: Expected::AtLeast(0.80),
        unit: Unit::Share,
        workload: MAYUN,
    },
    Claim {
        name: "griffin-timeout-penalty",
        place: "6.1.2, figure 5b",
        says: "with a timeout, few reads are served by the log",
        expected: Expected::AtMost(0.20),
        unit: Unit::Share,
        workload: MAYUN,
    },
    Claim {
        name: "griffin-threshold-savings",
        place: "6.1.2, figure 6a",
        says: "savings of a read threshold of 1 % relative to those of the timeout of 900 s",
        expected: Expected::Level(1.0),
        unit: Unit::Times,
        workload: MAYUN,
    },
    Claim {
        name: "griffin-savings",
        place: "section 1",
        says: "with timeout and read threshold, writes to the SSD fall on desktops",
        expected: change(0.49),
        unit: Unit::Share,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-penalty",
        place: "section 1",
        says: "with timeout and read threshold, few reads are served by the disk",
        expected: Expected::AtMost(0.01),
        unit: Unit::Share,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-savings-public",
        place: "section 1",
        says: "with timeout and read threshold, writes to the SSD fall on desktops",
        expected: change(0.49),
        unit: Unit::Share,
        workload: Workload::PublicDesktops,
    },
    Claim {
        name: "griffin-penalty-public",
        place: "section 1",
        says: "with timeout and read threshold, few reads are served by the disk",
        expected: Expected::AtMost(0.01),
        unit: Unit::Share,
        workload: Workload::PublicDesktops,
    },
    Claim {
        name: "griffin-sequentiality",
        place: "section 1, figure 7",
        says: "more of the SSD's writes are sequential",
        expected: change(0.15),
        unit: Unit::Difference,
        workload: Workload::Shipped,
    },
    Claim {
        name: "griffin-life-ideal",
        place: "6.3, figure 8",
        says: "fewer erases under the ideal translation layer make the SSD last longer",
        expected: factor(2.0),
        unit: Unit::Times,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-life-simple",
        place: "6.3, figure 8",
        says: "gain of life under the simple translation layer relative to the gain under the ideal one: larger",
        expected: Expected::Above(1.0),
        unit: Unit::Times,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-latency",
        place: "6.4, figure 9",
        says: "a log on a 7200 rpm disk lowers the mean latency of an X25-M",
        expected: change(-0.56),
        unit: Unit::Difference,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-latency-public",
        place: "6.4, figure 9",
        says: "a log on a 7200 rpm disk lowers the mean latency of an X25-M",
        expected: change(-0.56),
        unit: Unit::Difference,
        workload: MAYUN,
    },
    Claim {
        name: "griffin-latency-p2p",
        place: "6.4, figure 9",
        says: "a log on a 7200 rpm disk lowers the mean latency of an X25-M",
        expected: change(-0.56),
        unit: Unit::Difference,
        workload: Workload::Public(P2P),
    },
    Claim {
        name: "griffin-latency-sys1",
        place: "6.4, figure 9",
        says: "a log on a 7200 rpm disk lowers the mean latency of an X25-M",
        expected: change(-0.56),
        unit: Unit::Difference,
        workload: Workload::Public(SYS1),
    },
    Claim {
        name: "griffin-slc-log",
        place: "section 7",
        says: "an SLC log that lasts as long as the MLC drive has this share of its size",
        expected: Expected::Level(0.20),
        unit: Unit::Share,
        workload: Workload::Desktops,
    },
    Claim {
        name: "griffin-random-writes",
        place: "section 2",
        says: "random 4 KB writes are slower than sequential writes on an X25-M",
        expected: Expected::AtLeast(6.0),
        unit: Unit::Times,
        workload: Workload::Generated("4 KiB, 64 KiB writes"),
    },
    Claim {
        name: "griffin-timeout-savings-3h",
        place: "6.1.2, figure 5a",
        says: "a timeout of 900 s keeps most of the savings without migrations",
        expected: Expected::AtLeast(0.80),
        unit: Unit::Share,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-timeout-penalty-3h",
        place: "6.1.2, figure 5b",
        says: "with a timeout, few reads are served by the log",
        expected: Expected::AtMost(0.20),
        unit: Unit::Share,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-threshold-savings-3h",
        place: "6.1.2, figure 6a",
        says: "savings of a read threshold of 1 % relative to those of the timeout of 900 s",
        expected: Expected::Level(1.0),
        unit: Unit::Times,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-savings-3h",
        place: "section 1",
        says: "with timeout and read threshold, writes to the SSD fall on desktops",
        expected: change(0.49),
        unit: Unit::Share,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-penalty-3h",
        place: "section 1",
        says: "with timeout and read threshold, few reads are served by the disk",
        expected: Expected::AtMost(0.01),
        unit: Unit::Share,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-sequentiality-3h",
        place: "section 1, figure 7",
        says: "more of the SSD's writes are sequential",
        expected: change(0.15),
        unit: Unit::Difference,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-life-ideal-3h",
        place: "6.3, figure 8",
        says: "fewer erases under the ideal translation layer make the SSD last longer",
        expected: factor(2.0),
        unit: Unit::Times,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-latency-3h",
        place: "6.4, figure 9",
        says: "a log on a 7200 rpm disk lowers the mean latency of an X25-M",
        expected: change(-0.56),
        unit: Unit::Difference,
        workload: RECORDED,
    },
    Claim {
        name: "griffin-slc-log-3h",
        place: "section 7",
        says: "an SLC log that lasts as long as the MLC drive has this share of its size",
        expected: Expected::Level(0.20),
        unit: Unit::Share,
        workload: RECORDED,
    },
];
