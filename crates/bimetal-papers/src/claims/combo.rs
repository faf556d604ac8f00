//! Claims of the Combo Drive paper: table 2, figures 5 to 8.

use super::{Claim, Expected, Unit, Workload, change, factor};

const fn rate(name: &'static str, says: &'static str, paper: f64) -> Claim {
    Claim {
        name,
        place: "5.1, figures 5 and 6",
        says,
        expected: Expected::Level(paper),
        unit: Unit::MegabytesPerSecond,
        workload: Workload::Generated("HD Tune"),
    }
}

/// Claims whose value follows from figures that were fitted to the paper, and these figures.
pub(super) const FITTED: [(&str, &str); 4] = [
    ("combo-read-ssd1", OF_SSD1),
    ("combo-write-ssd1", OF_SSD1),
    ("combo-read-ssd2", OF_SSD2),
    ("combo-write-ssd2", OF_SSD2),
];

const OF_SSD1: &str = "the profiles are fitted to table 2: the disk to 53 MB/s, SSD1 to 64.2 and 12.3 MB/s";
const OF_SSD2: &str = "the profiles are fitted to table 2: the disk to 53 MB/s, SSD2 to 109.5 and 75.3 MB/s";

/// Trace of the start of a system.
const BOOT: Workload = Workload::Recorded("boot");
/// Trace of the start of an office program.
const OFFICE: Workload = Workload::Recorded("office-start");

pub(super) const CLAIMS: &[Claim] = &[
    rate("combo-read-ssd1", "mean rate of reads over SSD1 and disk", 54.0),
    rate("combo-write-ssd1", "mean rate of writes over SSD1 and disk", 48.0),
    rate("combo-read-ssd2", "mean rate of reads over SSD2 and disk", 55.0),
    rate("combo-write-ssd2", "mean rate of writes over SSD2 and disk", 50.0),
    Claim {
        name: "combo-access",
        place: "table 2",
        says: "mean access time of the disk",
        expected: Expected::Level(18.0),
        unit: Unit::Milliseconds,
        workload: Workload::Generated("HD Tune"),
    },
    Claim {
        name: "combo-boot-hdd",
        place: "5.2, figure 7",
        says: "start of the system on a contiguous disk relative to SSD1 (19 s to 17 s)",
        expected: factor(19.0 / 17.0),
        unit: Unit::Times,
        workload: BOOT,
    },
    Claim {
        name: "combo-boot-aged",
        place: "5.2, figure 7",
        says: "start of the system on an aged disk relative to a contiguous one (224 s to 19 s)",
        expected: factor(224.0 / 19.0),
        unit: Unit::Times,
        workload: BOOT,
    },
    Claim {
        name: "combo-start-hdd",
        place: "5.3, figure 8",
        says: "start of a program on a contiguous disk relative to SSD1 (4.15 s to 2.82 s)",
        expected: factor(4.15 / 2.82),
        unit: Unit::Times,
        workload: Workload::ProgramStart,
    },
    Claim {
        name: "combo-start-aged",
        place: "5.3, figure 8",
        says: "start of a program on an aged disk relative to SSD1 (29.03 s to 2.82 s)",
        expected: factor(29.03 / 2.82),
        unit: Unit::Times,
        workload: OFFICE,
    },
    Claim {
        name: "combo-start-optimized",
        place: "5.3, figure 8",
        says: "share of the disk's extra time that the file type optimizer removes (2.79 s)",
        expected: change((4.15 - 2.79) / (4.15 - 2.82)),
        unit: Unit::Share,
        workload: Workload::ProgramStart,
    },
    Claim {
        name: "combo-optimizer",
        place: "5.2, figure 7",
        says: "the file type optimizer shortens the start on the Combo Drive (20 s to 17 s)",
        expected: change(-0.15),
        unit: Unit::Difference,
        workload: Workload::ProgramStart,
    },
    Claim {
        name: "combo-office-hdd",
        place: "5.3, figure 8",
        says: "start of a program on a contiguous disk relative to SSD1 (4.15 s to 2.82 s)",
        expected: factor(4.15 / 2.82),
        unit: Unit::Times,
        workload: OFFICE,
    },
    Claim {
        name: "combo-office-optimized",
        place: "5.3, figure 8",
        says: "share of the disk's extra time that the file type optimizer removes (2.79 s)",
        expected: change((4.15 - 2.79) / (4.15 - 2.82)),
        unit: Unit::Share,
        workload: OFFICE,
    },
    Claim {
        name: "combo-boot-optimizer",
        place: "5.2, figure 7",
        says: "the file type optimizer shortens the start on the Combo Drive (20 s to 17 s)",
        expected: change(-0.15),
        unit: Unit::Difference,
        workload: BOOT,
    },
];
