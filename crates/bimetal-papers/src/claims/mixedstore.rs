//! Claims of the MixedStore paper: figures 8 to 11, tables 3 to 5.

use super::{Claim, Expected, Unit, Workload, change, factor};

const FINANCIAL: Workload = Workload::Generated("table 2, Financial");
const PUBLISHED: Workload = Workload::Public("financial1-first10k.ascii.xz");
const BURSTS: Workload = Workload::Generated("table 2, Financial, with bursts");
const TRAINING: Workload = Workload::Generated("training set of 4.4");

const fn of_bursts(name: &'static str, place: &'static str, says: &'static str, paper: f64) -> Claim {
    Claim { name, place, says, expected: change(paper), unit: Unit::Difference, workload: BURSTS }
}

const fn error(name: &'static str, says: &'static str, paper: f64) -> Claim {
    Claim {
        name,
        place: "4.4, table 3",
        says,
        expected: Expected::Level(paper),
        unit: Unit::Share,
        workload: Workload::Generated("table 3"),
    }
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "mixedstore-response",
        place: "5.2, figure 8",
        says: "the mean response time falls against the disk alone",
        expected: change(-0.71),
        unit: Unit::Difference,
        workload: FINANCIAL,
    },
    Claim {
        name: "mixedstore-response-public",
        place: "5.2, figure 8",
        says: "the mean response time falls against the disk alone",
        expected: change(-0.71),
        unit: Unit::Difference,
        workload: PUBLISHED,
    },
    Claim {
        name: "mixedstore-r2",
        place: "5.2",
        says: "R² of the fit that predicts the SSD's response time",
        expected: Expected::Level(0.98),
        unit: Unit::Share,
        workload: FINANCIAL,
    },
    Claim {
        name: "mixedstore-r2-public",
        place: "5.2",
        says: "R² of the fit that predicts the SSD's response time",
        expected: Expected::Level(0.98),
        unit: Unit::Share,
        workload: PUBLISHED,
    },
    Claim {
        name: "mixedstore-buster",
        place: "5.3, figure 10",
        says: "more requests are served in time with the fragmentation buster",
        expected: change(0.02),
        unit: Unit::Difference,
        workload: BURSTS,
    },
    of_bursts("mixedstore-red25-erases", "5.4, table 5", "Red25 lowers the erase rate (0.16 to 0.12)", -0.25),
    of_bursts("mixedstore-red50-erases", "5.4, table 5", "Red50 lowers the erase rate (0.16 to 0.09)", -0.4375),
    of_bursts(
        "mixedstore-red25-flash",
        "5.4, table 5",
        "Red25 lowers the flash's share (0.69 to 0.54)",
        0.54 / 0.69 - 1.0,
    ),
    of_bursts(
        "mixedstore-red50-flash",
        "5.4, table 5",
        "Red50 lowers the flash's share (0.69 to 0.40)",
        0.40 / 0.69 - 1.0,
    ),
    of_bursts(
        "mixedstore-red25-response",
        "5.4, table 5",
        "Red25 raises the response time (1.15 to 1.56 ms)",
        0.41 / 1.15,
    ),
    of_bursts(
        "mixedstore-red50-response",
        "5.4, table 5",
        "Red50 raises the response time (1.15 to 1.98 ms)",
        0.83 / 1.15,
    ),
    of_bursts("mixedstore-levelling", "5.5, figure 11", "adaptive wear levelling makes the flash last longer", 0.33),
    Claim {
        name: "mixcp-response-r2",
        place: "4.4",
        says: "adjusted R² of the response time's regression",
        expected: Expected::Level(0.90),
        unit: Unit::Share,
        workload: TRAINING,
    },
    Claim {
        name: "mixcp-erases-r2",
        place: "4.4",
        says: "adjusted R² of the erase rate's regression",
        expected: Expected::Level(0.90),
        unit: Unit::Share,
        workload: TRAINING,
    },
    Claim {
        name: "mixcp-error",
        place: "4.4",
        says: "mean error of the response time over the training set",
        expected: Expected::Level(0.25),
        unit: Unit::Share,
        workload: TRAINING,
    },
    error("mixcp-w2", "error of W2's response time", 0.04),
    error("mixcp-w3", "error of W3's response time", 0.21),
    error("mixcp-w5", "error of Financial's response time (W5)", 0.55),
    error("mixcp-w5-erases", "error of Financial's erase rate (W5)", 0.55),
    Claim {
        name: "mixcp-life-over",
        place: "4.5, table 4",
        says: "life of Financial on twice the flash relative to the planned one (52.69 to 7.29 years)",
        expected: factor(52.69 / 7.29),
        unit: Unit::Times,
        workload: Workload::Generated("table 3, Financial"),
    },
    Claim {
        name: "mixcp-life-under",
        place: "4.5, table 4",
        says: "life of Financial on half the flash relative to the planned one (2.67 to 7.29 years)",
        expected: factor(2.67 / 7.29),
        unit: Unit::Times,
        workload: Workload::Generated("table 3, Financial"),
    },
];
