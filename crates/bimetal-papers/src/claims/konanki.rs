//! Claims of Konanki's thesis: figures 5.7 to 5.12.

use super::{Claim, Expected, Unit, Workload, change};

const fn erased(name: &'static str, place: &'static str, says: &'static str, expected: Expected, unit: Unit) -> Claim {
    Claim { name, place, says, expected, unit, workload: Workload::Generated("table 5.1, download") }
}

const fn within(name: &'static str, place: &'static str, says: &'static str, paper: f64, of: &'static str) -> Claim {
    Claim { name, place, says, expected: Expected::Level(paper), unit: Unit::Share, workload: Workload::Generated(of) }
}

const fn gain(name: &'static str, place: &'static str, says: &'static str, paper: f64, of: &'static str) -> Claim {
    Claim { name, place, says, expected: change(paper), unit: Unit::Difference, workload: Workload::Generated(of) }
}

const FIREFOX: &str = "tables 5.3, 5.4, Firefox";
const DIA: &str = "tables 5.3, 5.4, Dia";

pub(super) const CLAIMS: &[Claim] = &[
    erased(
        "konanki-once-anand",
        "figure 5.7",
        "a file written once erases no block under ANAND: most erases of a block",
        Expected::AtMost(0.0),
        Unit::Erases,
    ),
    erased(
        "konanki-once-fmax",
        "figure 5.7",
        "a file written once erases no block under FMAX: most erases of a block",
        Expected::AtMost(0.0),
        Unit::Erases,
    ),
    erased(
        "konanki-once-page",
        "figure 5.7",
        "a file written once erases blocks up to twice under page level: most erases of a block",
        Expected::Level(2.0),
        Unit::Erases,
    ),
    erased(
        "konanki-wear-anand",
        "figure 5.8",
        "share of the blocks erased once under ANAND, the file written fifteen times: most",
        Expected::AtLeast(0.5),
        Unit::Share,
    ),
    erased(
        "konanki-wear-fmax",
        "figure 5.8",
        "share of the blocks erased twice under FMAX: most",
        Expected::AtLeast(0.5),
        Unit::Share,
    ),
    erased(
        "konanki-wear-log-block",
        "figure 5.8",
        "share of the blocks never erased under log block: most",
        Expected::AtLeast(0.5),
        Unit::Share,
    ),
    within("konanki-firefox-disk", "figure 5.9", "share within 10 ms on the disk, Firefox", 0.30, FIREFOX),
    within("konanki-firefox-anand", "figure 5.9", "share within 10 ms on the hybrid, ANAND, Firefox", 0.50, FIREFOX),
    gain(
        "konanki-firefox-gain",
        "figure 5.9",
        "the hybrid completes more within 10 ms than the disk, Firefox (50 % to 30 %)",
        0.20,
        FIREFOX,
    ),
    within("konanki-dia-disk", "figure 5.10", "share within 10 ms on the disk, Dia", 0.91, DIA),
    within("konanki-dia-anand", "figure 5.10", "share within 10 ms on the hybrid, ANAND, Dia", 0.75, DIA),
    gain(
        "konanki-dia-loss",
        "figure 5.10",
        "the hybrid completes less within 10 ms than the disk, Dia (75 % to 91 %)",
        -0.16,
        DIA,
    ),
    within(
        "konanki-mp3-large",
        "figure 5.11",
        "share of the writes that exceed the threshold and go to the disk, MP3",
        0.50,
        "tables 5.3, 5.4, MP3",
    ),
    Claim {
        name: "konanki-untar",
        place: "figure 5.12",
        says: "share of the requests completed on disk and hybrid alike, Untar",
        expected: Expected::Level(0.50),
        unit: Unit::Share,
        workload: Workload::None("the text does not say within what time"),
    },
];
