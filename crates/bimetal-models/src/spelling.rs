//! The known name nearest to a misspelt one, for the "did you mean" of error messages.

/// Number of edits that still count as a typing error.
const SLIPS: usize = 2;

/// Returns the name in `known` nearest to `name`, without regard to case. The nearest name is the
/// name with the fewest letters left out, put in, changed, or swapped with their neighbour. Of
/// equally near names the first counts. The edits may be at most half as many as the longer name
/// has letters. With more than `SLIPS` edits, the first name that begins with `name` is nearer than
/// any other. `None` if no name is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let (mut best, mut longer) = (None, None);
    for candidate in known {
        let letters = candidate.to_lowercase();
        let distance = strsim::osa_distance(&wanted, &letters);
        let longest = wanted.chars().count().max(letters.chars().count());
        if distance <= longest / 2 && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
        if longer.is_none() && !wanted.is_empty() && letters.starts_with(&wanted) {
            longer = Some(candidate);
        }
    }
    let slip = best.filter(|(distance, _)| *distance <= SLIPS);
    slip.map(|(_, candidate)| candidate).or(longer).or(best.map(|(_, candidate)| candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest_and_nonsense_gets_none() {
        let known = ["mqsim", "msr", "spc", "disksim", "griffin", "cloudphysics-csv"];
        assert_eq!(nearest("mrs", known), Some("msr"));
        assert_eq!(nearest("grifin", known), Some("griffin"));
        assert_eq!(nearest("DiskSim", known), Some("disksim"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("msr", []), None);
    }

    /// Of equally near names, the first is returned. A name that begins with the text is found if
    /// no name is nearer.
    #[test]
    fn first_of_equals_wins_and_a_prefix_matches_as_a_fallback() {
        assert_eq!(nearest("lxu", ["lru", "lfu"]), Some("lru"));
        assert_eq!(nearest("cloud", ["spc", "cloudphysics-csv", "cloudphysics-bin"]), Some("cloudphysics-csv"));
        assert_eq!(nearest("cloud", ["cloudphysics-csv", "clod"]), Some("clod"));
    }

    /// Regression: for `samsung-970` the program suggested `samsung-pm9a3`, four edits away,
    /// instead of the one drive whose name begins with the text.
    #[test]
    fn begun_name_is_nearer_than_one_with_many_edits() {
        let known = ["samsung-870-qvo-1tb", "samsung-pm9a3", "samsung-970-evo-plus-500gb"];
        assert_eq!(nearest("samsung-970", known), Some("samsung-970-evo-plus-500gb"));
    }
}
