//! Schemes that put ranges of addresses on the SSD, over a trace that accesses the first addresses
//! of a much larger volume: the place of the accesses decides the figures of these schemes, and the
//! trace does not show whether users stay at these addresses.

use bimetal_core::layout::Role;
use bimetal_core::scheme::Holds;
use bimetal_core::schemes;
use bimetal_core::units::Bytes;

use super::Finding;
use crate::results::Run;
use crate::setup::Sizing;

/// Ratio of the volume's size to the addresses that the trace accesses. From this ratio on, nothing
/// is known about most of the volume's addresses.
const LARGER: u64 = 2;

/// Returns true if a trace whose accesses all lie below `address_end` accesses only a part of a
/// volume of `capacity`.
pub fn is_part(capacity: Bytes, address_end: Bytes) -> bool {
    address_end.0 > 0 && capacity.0 / LARGER > address_end.0
}

/// Returns true if the figures of a scheme on a volume that must hold `capacity` depend on the
/// place of the trace's accesses, which all lie below `address_end`.
pub fn depends_on_place(scheme: &str, capacity: Bytes, address_end: Bytes) -> bool {
    let holds_ranges = schemes::find(scheme).is_some_and(|info| info.members.contains(&(Role::Ssd, Holds::Ranges)));
    holds_ranges && is_part(capacity, address_end)
}

pub(super) fn of(runs: &[Run], capacity: Bytes, address_end: Bytes) -> Option<Finding> {
    let depends = |run: &&Run| depends_on_place(&run.scheme, capacity, address_end);
    let mut names: Vec<&str> = Vec::new();
    for run in runs.iter().filter(depends).filter(|run| run.sizing != Sizing::Share) {
        names.push(&run.label);
    }
    if names.is_empty() {
        return None;
    }
    let text = format!(
        "The trace accesses the first {} of {}. The SSD under {} has the first addresses, or ranges of them: the figures \
         hold only for data that lie there.",
        size(address_end.0),
        size(capacity.0),
        names.join(", ")
    );
    let share = address_end.0 as f64 / capacity.0 as f64;
    let remedy = "a trace of the whole volume, or another scheme";
    Some(Finding::new("part-of-addresses", "warning", text, remedy, Some(share)))
}

/// Returns a size in the units in which drives are sold.
pub(super) fn size(bytes: u64) -> String {
    let gb = bytes as f64 / 1e9;
    if gb < 0.95 {
        format!("{:.1} MB", bytes as f64 / 1e6)
    } else if gb < 999.5 {
        format!("{gb:.1} GB")
    } else {
        format!("{:.1} TB", gb / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_drives() {
        let texts = [88_300_000, 1_500_000_000, 2_000_000_000_000].map(size);
        assert_eq!(texts, ["88.3 MB", "1.5 GB", "2.0 TB"]);
    }

    /// combo was the advice for 8 TB because a trace of 10 GB fitted into the SSD.
    #[test]
    fn scheme_of_ranges_is_named_where_most_addresses_are_unknown() {
        let end = Bytes(10_000_000_000);
        let capacity = Bytes(8_000_000_000_000);
        let runs = [Run::named("bcache"), Run::named("combo")];
        let found = of(&runs, capacity, end).expect("combo depends on the place");
        assert!(found.text.starts_with("The trace accesses the first 10.0 GB of 8.0 TB. The SSD under combo has"));
        assert_eq!(found.share, Some(0.00125));
        assert_eq!(of(&runs[..1], capacity, end), None, "a cache follows the accesses");
        assert_eq!(of(&runs, Bytes(20_000_000_000), end), None);
        assert!(of(&[Run::named("hddboost")], Bytes(21_000_000_000), end).is_some());
        assert_eq!(of(&runs, capacity, Bytes(0)), None);
    }
}
