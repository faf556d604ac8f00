//! The known name nearest to a misspelt one, for the "did you mean" of every error message.

/// Returns the name in `known` nearest to `name`, without regard to case. Nearest is the name with
/// the fewest letters left out, put in, changed, or swapped with their neighbour; the first of
/// equals. These edits may be at most half as many as the longer name has letters. Otherwise it is
/// the first name that begins with `name`, or `None` if nothing is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let (mut best, mut longer) = (None, None);
    for candidate in known {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        let distance = distance(&wanted, &letters);
        if distance <= wanted.len().max(letters.len()) / 2 && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
        if longer.is_none() && !wanted.is_empty() && letters.starts_with(&wanted) {
            longer = Some(candidate);
        }
    }
    best.map(|(_, candidate)| candidate).or(longer)
}

/// Returns the distance of Damerau and Levenshtein, as optimal string alignment: no letter is
/// edited twice.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut row = above.clone();
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let changed = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        std::mem::swap(&mut before, &mut above);
        std::mem::swap(&mut above, &mut row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_left_out_put_in_changed_or_swapped_count_one_each() {
        let count = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, edits) in [
            ("", "", 0),
            ("", "msr", 3),
            ("msr", "", 3),
            ("msr", "msr", 0),
            ("mrs", "msr", 1),
            ("grifin", "griffin", 1),
            ("fios", "fio", 1),
            ("lru", "lfu", 1),
            ("abcdef", "badcfe", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(count(a, b), edits, "{a} {b}");
            assert_eq!(count(b, a), edits, "{b} {a}");
        }
    }

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

    /// The first of equally near names wins. A name that begins with the text is found if no name
    /// is nearer.
    #[test]
    fn first_of_equals_wins_and_a_prefix_matches_as_a_fallback() {
        assert_eq!(nearest("lxu", ["lru", "lfu"]), Some("lru"));
        assert_eq!(nearest("cloud", ["spc", "cloudphysics-csv", "cloudphysics-bin"]), Some("cloudphysics-csv"));
        assert_eq!(nearest("cloud", ["cloudphysics-csv", "clod"]), Some("clod"));
    }
}
