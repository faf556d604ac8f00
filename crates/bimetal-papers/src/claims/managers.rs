//! Claims of the storage managers' paper: figures 6 and 8, equation 1.

use super::{Claim, Expected, Unit, Workload, factor};

/// Value of a claim: share of the score of the SSD alone.
const fn share(name: &'static str, says: &'static str, paper: f64, workload: Workload) -> Claim {
    Claim { name, place: "section IV, figure 6", says, expected: Expected::Level(paper), unit: Unit::Share, workload }
}

/// Score over the price of manager and SSD, where the SSD alone has a score of 25,000.
const fn budget(name: &'static str, says: &'static str, paper: f64, workload: Workload) -> Claim {
    Claim {
        name,
        place: "section IV, equation 1",
        says,
        expected: Expected::Level(paper),
        unit: Unit::ScorePerDollar,
        workload,
    }
}

/// Score of the SSD a dollar, relative to the disk.
const fn per_dollar(name: &'static str, workload: Workload) -> Claim {
    Claim {
        name,
        place: "section IV, figure 8",
        says: "score a dollar of the SSD relative to the disk (223 to 77)",
        expected: factor(223.0 / 77.0),
        unit: Unit::Times,
        workload,
    }
}

/// Budget of the best manager, relative to the next best manager.
const fn best_budget(name: &'static str, workload: Workload) -> Claim {
    Claim {
        name,
        place: "section IV",
        says: "budget of HyperDuo relative to Smart Response (76 to 74)",
        expected: factor(76.0 / 74.0),
        unit: Unit::Times,
        workload,
    }
}

/// Pairs of two managers in which the better one of the paper is the better one.
const fn order(name: &'static str, workload: Workload) -> Claim {
    Claim {
        name,
        place: "section IV, figure 6",
        says: "Smart Response is faster than HyperDuo, and HyperDuo than HDDBoost: pairs in this order, of three",
        expected: Expected::AtLeast(3.0),
        unit: Unit::Pairs,
        workload,
    }
}

/// Claims that follow from definitions of Bimetal, each with the definition.
pub(super) const DEFINED: [(&str, &str); 10] = [
    ("managers-per-dollar", PRICES),
    ("managers-budget-hyperduo", PRICES),
    ("managers-budget-srt", PRICES),
    ("managers-budget-hddboost", PRICES),
    ("managers-best-budget", PRICES),
    ("managers-per-dollar-mix", PRICES),
    ("managers-budget-hyperduo-mix", PRICES),
    ("managers-budget-srt-mix", PRICES),
    ("managers-budget-hddboost-mix", PRICES),
    ("managers-best-budget-mix", PRICES),
];

const PRICES: &str = "the prices are computed from the paper's scores, so the row repeats the row of the score";

/// Trace of eight tasks of a desktop, as PCMark has eight.
const MIX: Workload = Workload::Recorded("application-mix");

pub(super) const CLAIMS: &[Claim] = &[
    share("managers-hdd", "score of the disk relative to the SSD", 0.20, Workload::Shipped),
    share("managers-srt", "score of Smart Response, enhanced, relative to the SSD", 0.81, Workload::Shipped),
    share("managers-hyperduo", "score of HyperDuo, safe, relative to the SSD", 0.46, Workload::Shipped),
    share("managers-hddboost", "score of HDDBoost relative to the SSD", 0.44, Workload::Shipped),
    order("managers-order", Workload::Shipped),
    per_dollar("managers-per-dollar", Workload::Shipped),
    budget("managers-budget-hyperduo", "budget of HyperDuo", 76.0, Workload::Shipped),
    budget("managers-budget-srt", "budget of Smart Response", 74.0, Workload::Shipped),
    budget("managers-budget-hddboost", "budget of HDDBoost", 67.0, Workload::Shipped),
    best_budget("managers-best-budget", Workload::Shipped),
    share("managers-hdd-mix", "score of the disk relative to the SSD", 0.20, MIX),
    share("managers-srt-mix", "score of Smart Response, enhanced, relative to the SSD", 0.81, MIX),
    share("managers-hyperduo-mix", "score of HyperDuo, safe, relative to the SSD", 0.46, MIX),
    share("managers-hddboost-mix", "score of HDDBoost relative to the SSD", 0.44, MIX),
    order("managers-order-mix", MIX),
    per_dollar("managers-per-dollar-mix", MIX),
    budget("managers-budget-hyperduo-mix", "budget of HyperDuo", 76.0, MIX),
    budget("managers-budget-srt-mix", "budget of Smart Response", 74.0, MIX),
    budget("managers-budget-hddboost-mix", "budget of HDDBoost", 67.0, MIX),
    best_budget("managers-best-budget-mix", MIX),
];
